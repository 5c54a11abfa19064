import { aggregateOf } from "./aggregates";
import { toText } from "./api/exactJson";
import type { Liveness, RuleDocument } from "./api/types";
import { conditionsOf, hasAggregate, requiredText } from "./conditions";
import { fieldLabel, type Fields } from "./fields";
import { calendarText, groupDigits, isPartial } from "./ruleSentence";

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** 12,345 or 12.3; a dash for an unknown value. */
export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return Number.isInteger(value) ? whole.format(value) : short.format(value);
}

/** A count with its noun: 1 alert, 1,200 alerts. */
export function formatCount(count: number, noun: string): string {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A fraction as a percentage. */
export function formatPercent(formatShare: number | null | undefined): string {
  return formatShare === null || formatShare === undefined ? "–" : `${Math.round(formatShare * 100)} %`;
}

/** The verdict in words. Its limits exceed those of an outage, so a verdict can be HEALTHY during an outage. */
export function verdictText({ severity, verdict }: Liveness): string {
  return severity !== "NONE" && verdict.name === "HEALTHY" ? "DELAYED" : verdict.name.replaceAll("_", " ");
}

/** A part of a whole: 12.5 % of 2,000. */
export function formatShare(part: number, whole: number): string {
  return whole === 0 ? "–" : `${formatNumber(Math.round((1_000 * part) / whole) / 10)} % of ${formatNumber(whole)}`;
}

/** The local time of day, with the date for another day than today's. */
export function formatTime(ms: number, now = Date.now()): string {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return "–";
  return at.toDateString() === new Date(now).toDateString()
    ? clock.format(at)
    : `${day.format(at)}, ${clock.format(at)}`;
}

/** The local date and time of day. */
export function formatDateTime(ms: number): string {
  return `${day.format(new Date(ms))}, ${clock.format(new Date(ms))}`;
}

/** 850 ms, 12 s, 3 min, 2 h, 4 d. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${formatNumber(Math.round(ms / 100) / 10)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} d`;
}

/** A short duration in µs with two decimals: 0.04 µs. */
export function formatMicroseconds(ns: number): string {
  return `${(ns / 1_000).toFixed(2)} µs`;
}

/** The age of a time: 3 min ago. */
export function formatAge(ms: number, now = Date.now()): string {
  return now - ms < 5_000 ? "just now" : `${formatDuration(now - ms)} ago`;
}

/** A byte count with a decimal unit: 1.2 GB. */
export function formatBytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = count;
  let unit = 0;
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${formatNumber(Math.round(value * 10) / 10)} ${units[unit] ?? ""}`;
}

/**
 * A rule in one line: SUM(paymentAmount) > 20000 in 20 min per payeeId where ..., evaluated when ...
 *
 * tests/corpus/rule_lines.json has cases.
 */
export function ruleFormula(rule: RuleDocument): string {
  const keys = groupingText(rule["groupingKeyNames"]);
  const conditions = conditionsOf(rule);
  const own = hasAggregate(rule) ? `${comparedText(rule)} ${keys}${filterText(rule)}` : "";
  const each = conditions.map(conditionText).join("; ");
  const required = conditions.length === 0 ? "" : `${requiredText(rule, conditions.length)} of [${each}]`;
  const line = own === "" ? `${required} ${keys}` : [own, required].filter((part) => part !== "").join(", and ");
  const selected = own === "" && !hasText(rule["when"]) ? rule["filter"] : rule["when"];
  const when = hasText(selected) ? `, evaluated when ${toText(selected)}` : "";
  return `${line}${when}${isPartial(rule) ? `, for ${toText(rule["rolloutPercent"])} % of the keys` : ""}`;
}

/** A condition: an aggregate with its filter, or the rule that it names. */
function conditionText(condition: RuleDocument): string {
  const named = toText(condition["ruleId"]);
  return named === "" ? `${comparedText(condition)}${filterText(condition)}` : `rule ${named}`;
}

/** An aggregate with its limit and window: SUM(paymentAmount) > 5 in 20 min. */
function comparedText(rule: RuleDocument): string {
  const operator = toText(rule["limitOperatorType"]) || "?";
  return `${aggregateText(rule)} ${operator} ${limitText(rule)} in ${windowText(rule)}`;
}

/** Whether the limit of a rule is an expression: a text that is no number. */
export function limitIsExpression(limit: unknown): limit is string {
  return typeof limit === "string" && limit.trim() !== "" && !/^[+-]?\d+(\.\d*)?([eE][+-]?\d*)?$/u.test(limit);
}

/** What a rule compares its aggregate with. */
function limitText(rule: RuleDocument): string {
  const limit = toText(rule["limit"]) || "?";
  const baseline = rule["baseline"];
  if (typeof baseline !== "object" || baseline === null) return limit;
  const members: RuleDocument = { ...rule, filter: undefined, ...(baseline as RuleDocument) };
  const past = `of the ${windowText(baseline as RuleDocument)} before`;
  if (countsDeviations(rule)) {
    const field = toText(members["aggregateFieldName"]) || "?";
    return `mean(${field}) ${deviationSign(rule)} ${limit} deviations ${past}${filterText(members)}`;
  }
  return `${limit} x ${aggregateText(members)} ${past}${filterText(members)}`;
}

function filterText(rule: RuleDocument): string {
  return hasText(rule["filter"]) ? ` where ${toText(rule["filter"])}` : "";
}

function hasText(value: unknown): boolean {
  return toText(value) !== "";
}

/** Deviations count below the mean for a rule that looks for low values. */
function deviationSign(rule: RuleDocument): string {
  return toText(rule["limitOperatorType"]).startsWith("<") ? "-" : "+";
}

/** The comparison of an alert, with the value of its baseline: > 3 x 41.5. */
export function comparisonText(rule: RuleDocument, baseline?: { value: string } | null): string {
  const operator = toText(rule["limitOperatorType"]);
  const limit = groupDigits(toText(rule["limit"]));
  if (!baseline) return `${operator} ${limit}`;
  if (!countsDeviations(rule)) return `${operator} ${limit} x ${groupDigits(baseline.value)}`;
  return `${operator} ${groupDigits(baseline.value)} ${deviationSign(rule)} ${limit} deviations`;
}

/** Whether the limit of a rule counts standard deviations of its baseline. */
export function countsDeviations(rule: RuleDocument): boolean {
  const baseline = rule["baseline"];
  return typeof baseline === "object" && baseline !== null && (baseline as RuleDocument)["deviations"] === true;
}

/** The grouping of a rule. A rule without grouping keys has one group for all transactions. */
function groupingText(names: unknown): string {
  if (Array.isArray(names) && names.length === 0) return "over all transactions";
  return `per ${sortedText(names) || "?"}`;
}

function sortedText(names: unknown): string {
  return Array.isArray(names) ? names.map(toText).sort().join(", ") : toText(names);
}

/** The aggregate of a rule. Rules of the Flink demo encode a count as the sum of a field of ones. */
export function aggregateText(rule: RuleDocument): string {
  const name = toText(rule["aggregatorFunctionType"]).toUpperCase() || "?";
  const field = toText(rule["aggregateFieldName"]);
  const [, count] = /^(COUNT|COUNT_WITH_RESET)_FLINK$/u.exec(field) ?? [];
  if (count && name === "SUM") return `${count}()`;
  const input = aggregateOf(rule)?.input;
  if (input === "UNIQUE") return `${name}(${sortedText(rule["unique"])})`;
  return `${name}(${input === "ROWS" ? "" : field})`;
}

const WINDOW_UNITS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
] as const;

/** The window of a rule, in the largest unit that divides it. */
export function windowText(rule: RuleDocument): string {
  const calendar = calendarText(rule);
  if (calendar !== null) return calendar;
  const [text, unit] =
    rule["windowSeconds"] === undefined ? [toText(rule["windowMinutes"]), 60] : [toText(rule["windowSeconds"]), 1];
  const seconds = Number(text) * unit;
  if (!Number.isInteger(seconds) || seconds <= 0) return `${text || "?"} ${unit === 60 ? "min" : "s"}`;
  const steps = Number(toText(rule["resolutionSeconds"]));
  return steps > 0 ? `${lengthText(seconds)} in steps of ${lengthText(steps)}` : lengthText(seconds);
}

function lengthText(seconds: number): string {
  const [size, name] = WINDOW_UNITS.find(([each]) => seconds % each === 0) ?? [1, "s"];
  return `${seconds / size} ${name}`;
}

/** A grouping key as text: Payer 12 · Beneficiary 7. Without `fields`, with the names of the fields. */
export function formatKey(key: Record<string, unknown> | null, fields: Fields = []): string {
  if (key === null) return "all keys";
  return inSchemaOrder(Object.entries(key), fields)
    .map(([name, value]) => `${fieldLabel(name, fields)} ${toText(value)}`)
    .join(" · ");
}

/** The members of a key in the order of the schema, so that a payer comes before a beneficiary everywhere. */
function inSchemaOrder(members: [string, unknown][], fields: Fields): [string, unknown][] {
  const place = ([name]: [string, unknown]) => {
    const found = fields.findIndex((field) => field.name === name || field.aliases.includes(name));
    return found < 0 ? fields.length : found;
  };
  return [...members].sort((a, b) => place(a) - place(b));
}
