import { isSafeNumber, LosslessNumber, parse, stringify } from "lossless-json";

/**
 * JSON without rounding: a number that JavaScript cannot hold exactly (a 64-bit id, a limit of 38 digits) is kept as the
 * text it came as, and goes back as that.
 */
export function parseExactly(text: string): unknown {
  return parse(text, undefined, numberOf);
}

/** The JSON of a value, exact numbers as they came. */
export function stringifyExactly(value: unknown, indent?: number): string {
  return stringify(value, undefined, indent) ?? "null";
}

/** A number, or the exact text of one where JavaScript would round it. */
export function numberOf(text: string): number | LosslessNumber {
  // A float of 17 digits is exact here too: what it is printed as says so.
  return isSafeNumber(text) || String(Number(text)) === text ? Number(text) : new LosslessNumber(text);
}

/** Whether a value is a number, exact or not. */
export function isNumeric(value: unknown): value is number | LosslessNumber {
  return typeof value === "number" || value instanceof LosslessNumber;
}

/** A value as text for people; nothing for what is not there. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (value instanceof LosslessNumber) return value.toString();
  if (Array.isArray(value)) return value.map(shown).join(", ");
  return stringifyExactly(value);
}
