import { isSafeNumber, LosslessNumber, parse, stringify } from "lossless-json";

/**
 * Parses JSON without rounding. A number that JavaScript cannot represent exactly (a 64-bit id, a limit of 38 digits)
 * becomes a `LosslessNumber`, which keeps its text.
 */
export function parseExactly(text: string): unknown {
  return parse(text, undefined, parseNumber);
}

/** Writes JSON, with exact numbers as they were read. */
export function stringifyExactly(value: unknown, indent?: number): string {
  return stringify(value, undefined, indent) ?? "null";
}

/** A number, or a `LosslessNumber` if JavaScript would round it. */
export function parseNumber(text: string): number | LosslessNumber {
  // A float with 17 digits is exact if JavaScript prints it with the same digits.
  return isSafeNumber(text) || String(Number(text)) === text ? Number(text) : new LosslessNumber(text);
}

/** Whether a value is a number, exact or not. */
export function isNumeric(value: unknown): value is number | LosslessNumber {
  return typeof value === "number" || value instanceof LosslessNumber;
}

/** A value as text for display. An absent value gives an empty text. */
export function toText(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (value instanceof LosslessNumber) return value.toString();
  if (Array.isArray(value)) return value.map(toText).join(", ");
  return stringifyExactly(value);
}
