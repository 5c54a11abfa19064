import { toText } from "./api/exactJson";
import type { RuleDocument } from "./api/types";
import { aggregatedField, type Fields } from "./fields";
import { comparisonText, countsDeviations } from "./format";
import { countNoun, groupDigits } from "./ruleSentence";

/** The decimals of a number whose field declares none, such as the average of a count. */
const DECIMALS = 2;

/** A number with the decimals of its field: 20,000.00. Numbers of other fields have at most two decimals: 2.5. */
export function formatMeasure(text: string, field: Pick<Fields[number], "scale"> | undefined): string {
  const [, sign, whole, fraction = ""] = /^(-?)(\d+)(?:\.(\d+))?$/u.exec(text) ?? [];
  if (whole === undefined) return groupDigits(text);
  const scale = field?.scale ?? DECIMALS;
  const kept =
    BigInt(whole + fraction.slice(0, scale).padEnd(scale, "0")) + ((fraction[scale] ?? "0") >= "5" ? 1n : 0n);
  const digits = String(kept).padStart(scale + 1, "0");
  const split = digits.length - scale;
  const decimals = typeof field?.scale === "number" ? digits.slice(split) : digits.slice(split).replace(/0+$/u, "");
  return groupDigits(`${sign ?? ""}${digits.slice(0, split)}${decimals === "" ? "" : `.${decimals}`}`);
}

/** A number with the decimals and the unit of its field: 20,000.00 EUR. */
export function withUnit(text: string, field: Pick<Fields[number], "scale" | "unit"> | undefined): string {
  return `${formatMeasure(text, field)}${field?.unit ? ` ${field.unit}` : ""}`;
}

/** Whether a rule has conditions only. The value of its alerts is the number of those that hold. */
const hasOnlyConditions = (rule: RuleDocument) => "conditions" in rule && !("aggregatorFunctionType" in rule);

/** The value of a rule's aggregate with its noun or unit: 4 payments, 67,091.88 EUR, 2 conditions. */
export function valueText(rule: RuleDocument, value: string, fields: Fields): string {
  if (hasOnlyConditions(rule)) return `${value} ${value === "1" ? "condition" : "conditions"}`;
  const noun = countNoun(rule, fields, value === "1");
  return noun === null ? withUnit(value, aggregatedField(rule, fields)) : `${formatMeasure(value, undefined)} ${noun}`;
}

/**
 * What an alert exceeds: > 50,000.00 EUR, > 124.50 EUR (3 x 41.50), > 27.72 EUR + 6 deviations. `value` is that of a
 * limit that is an expression: > 250.00 EUR (paymentAmount * 2).
 */
export function limitText(
  rule: RuleDocument,
  baseline: { value: string } | null | undefined,
  fields: Fields,
  value?: string | null,
): string {
  if (hasOnlyConditions(rule)) return "";
  const field = aggregatedField(rule, fields);
  const operator = toText(rule["limitOperatorType"]);
  const limit = toText(rule["limit"]);
  if (value !== undefined && value !== null) return `${operator} ${withUnit(value, field)} (${limit})`;
  if (!baseline) return `${operator} ${withUnit(limit, field)}`;
  if (countsDeviations(rule)) return comparisonText(rule, { value: withUnit(baseline.value, field) });
  const bound = String(Number((Number(limit) * Number(baseline.value)).toPrecision(15)));
  return `${operator} ${withUnit(bound, field)} (${groupDigits(limit)} x ${formatMeasure(baseline.value, field)})`;
}
