import { AGGREGATES } from "./aggregates";
import { toText } from "./api/exactJson";
import type { RuleDocument } from "./api/types";
import { conditionsOf, hasAggregate, requiredText } from "./conditions";
import { fieldOf, type Fields } from "./fields";

const COMPARISONS: Record<string, string> = {
  ">": "more than",
  ">=": "at least",
  "<": "less than",
  "<=": "at most",
  "=": "exactly",
  "!=": "not exactly",
};
const UNITS = [
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
  [1, "second"],
] as const;

/**
 * A rule in words: Alert when one payer has more than 3 payments within 10 minutes.
 *
 * The command line has the same sentences (`rule_sentence` in sentence.py); tests/corpus/rule_lines.json has cases for
 * both. Null for a rule that lacks a member.
 */
export function ruleSentence(rule: RuleDocument, fields: Fields): string | null {
  const grouping = rule["groupingKeyNames"];
  const held = heldWords(rule, fields);
  if (!Array.isArray(grouping) || held === null) return null;
  const subject =
    grouping.length === 0 ? "all payments together have" : `${groupWords(grouping.map(toText), fields)} has`;
  const alerts = rule["action"] === "RESTRICT" ? "Alert and restrict" : "Alert";
  const verb = rule["ruleState"] === "SIGNAL" ? "Signal" : alerts;
  const sentences = [`${verb} when ${subject} ${held}.`];
  if (toText(rule["filter"]) !== "") sentences.push(`Only payments where ${toText(rule["filter"])} count.`);
  if (toText(rule["when"]) !== "") sentences.push(`Evaluated at payments where ${toText(rule["when"])}.`);
  if (isPartial(rule)) sentences.push(`Evaluated for ${toText(rule["rolloutPercent"])} % of the keys.`);
  return sentences.join(" ");
}

/** Whether the rule is evaluated for a share of the keys only. */
export function isPartial(rule: RuleDocument): boolean {
  return !["", "100"].includes(toText(rule["rolloutPercent"]));
}

/** One value of the grouping keys: one payer; one pair of payer and beneficiary. */
function groupWords(names: readonly string[], fields: Fields): string {
  const prefix = names.length === 1 ? "one" : names.length === 2 ? "one pair of" : "one combination of";
  return `${prefix} ${joinedLabels(names, fields)}`;
}

/** What must hold: the own aggregate, and as many conditions as the rule requires. */
function heldWords(rule: RuleDocument, fields: Fields): string | null {
  const conditions = conditionsOf(rule);
  const own = hasAggregate(rule) ? aggregateWords(rule, fields) : "";
  const each = conditions.map((condition) => {
    const named = toText(condition["ruleId"]);
    if (named !== "") return `a payment for which rule ${named} holds`;
    const words = aggregateWords(condition, fields);
    return words === null ? null : words + filteredWords(condition, rule);
  });
  if (own === null || each.includes(null)) return null;
  if (conditions.length === 0) return own;
  const required = requiredText(rule, conditions.length);
  const joined = each.join("; ");
  const words = conditions.length === 1 && required === "all" ? joined : `${required} of these: ${joined}`;
  return own === "" ? words : `${own}, and ${words}`;
}

/** The filter of a condition, if it is not that of the rule. */
function filteredWords(condition: RuleDocument, rule: RuleDocument): string {
  const filter = toText(condition["filter"]);
  if (filter === toText(rule["filter"])) return "";
  return filter === "" ? " (all payments)" : ` (payments where ${filter})`;
}

/** An aggregate with its limit and window. Null if it lacks a member. */
function aggregateWords(rule: RuleDocument, fields: Fields): string | null {
  const operator = COMPARISONS[toText(rule["limitOperatorType"])];
  const limit = toText(rule["limit"]);
  const window = windowWords(rule);
  if (operator === undefined || limit === "" || window === null) return null;
  const comparison = `${operator} ${groupDigits(limit)}`;
  const aggregate = aggregatedBy(rule);
  const counted = countedWords(aggregate.name, rule["unique"], fields);
  const measured = measuredWords(aggregate.name, aggregate.field, fields);
  if (counted === null && measured === null) return null;
  const baseline = rule["baseline"];
  if (typeof baseline === "object" && baseline !== null) {
    const past = baselineWords(rule, baseline as RuleDocument, fields, comparison);
    return `within ${window} ${withArticle(counted === null ? (measured ?? "") : `number of ${counted}`)} of ${past}`;
  }
  if (counted !== null) return `${comparison} ${counted} within ${window}`;
  const unit = fieldOf(aggregate.field, fields)?.unit ?? "";
  return `${withArticle(measured ?? "")} of ${comparison}${unit === "" ? "" : ` ${unit}`} within ${window}`;
}

/** The value of the past with which a rule compares its aggregate. */
function baselineWords(rule: RuleDocument, baseline: RuleDocument, fields: Fields, comparison: string): string {
  const members = { ...rule, ...baseline };
  const { name, field } = aggregatedBy(members);
  const counted = countedWords(name, [], fields);
  const before = `of the ${windowWords(baseline) ?? "?"} before`;
  const filter = toText(baseline["filter"]);
  const filtered = filter === "" ? "" : ` (payments where ${filter})`;
  if (baseline["deviations"] === true) {
    const side = toText(rule["limitOperatorType"]).startsWith("<") ? "below" : "above";
    const mean = measuredWords("AVG", field, fields) ?? "average";
    return `${comparison} standard deviations ${side} the ${mean} ${before}${filtered}`;
  }
  const past = counted === null ? (measuredWords(name, field, fields) ?? "value") : `number of ${counted}`;
  return `${comparison} times the ${past} ${before}${filtered}`;
}

/** The aggregate of a rule. Rules of the Flink demo encode a count as the sum of a field of ones. */
function aggregatedBy(rule: RuleDocument): { name: string; field: string } {
  const name = toText(rule["aggregatorFunctionType"]).toUpperCase();
  const field = toText(rule["aggregateFieldName"]);
  const [, count] = /^(COUNT|COUNT_WITH_RESET)_FLINK$/u.exec(field) ?? [];
  return count && name === "SUM" ? { name: count, field: "" } : { name, field: count ? "" : field };
}

/** What a rule counts: payments, different beneficiaries. Null for a rule that does not count. */
export function countNoun(rule: RuleDocument, fields: Fields, isOne: boolean): string | null {
  return countedWords(aggregatedBy(rule).name, rule["unique"], fields, isOne);
}

function countedWords(name: string, unique: unknown, fields: Fields, isOne = false): string | null {
  const aggregate = AGGREGATES[name];
  if (aggregate === undefined || aggregate.input === "FIELD") return null;
  const number = isOne ? (noun: string) => noun : plural;
  const words = (noun: string) => aggregate.words.replace("{}", () => noun);
  if (aggregate.input === "ROWS") return words(number("payment"));
  const names = ordered(Array.isArray(unique) ? unique.map(toText) : [], fields);
  const [first] = names;
  if (names.length === 1 && first !== undefined) return words(number(labelOf(first, fields)));
  return words(`${number("combination")} of ${joinedLabels(names, fields)}`);
}

function measuredWords(name: string, field: string, fields: Fields): string | null {
  const aggregate = AGGREGATES[name];
  if (aggregate?.input !== "FIELD") return null;
  return aggregate.words.replace("{}", () => (field === "" ? "count" : labelOf(field, fields)));
}

function joinedLabels(names: readonly string[], fields: Fields): string {
  return ordered(names, fields)
    .map((name) => labelOf(name, fields))
    .join(" and ");
}

function ordered(names: readonly string[], fields: Fields): string[] {
  const place = (name: string) => {
    const found = fields.findIndex((field) => field.name === name || field.aliases.includes(name));
    return found < 0 ? fields.length : found;
  };
  return [...names].sort((a, b) => place(a) - place(b));
}

function labelOf(name: string, fields: Fields): string {
  const label = fieldOf(name, fields)?.label ?? "";
  return label === "" ? name : label.charAt(0).toLowerCase() + label.slice(1);
}

/** The calendar window of a rule: one calendar day (Europe/Berlin). Null for a window with a length. */
export function calendarText(rule: RuleDocument): string | null {
  const calendar = toText(rule["windowCalendar"]);
  return calendar === "" ? null : `one calendar ${calendar.toLowerCase()} (${toText(rule["zone"]) || "UTC"})`;
}

function windowWords(rule: RuleDocument): string | null {
  const calendar = calendarText(rule);
  if (calendar !== null) return calendar;
  const [text, unit] =
    rule["windowSeconds"] === undefined ? [toText(rule["windowMinutes"]), 60] : [toText(rule["windowSeconds"]), 1];
  const length = lengthWords(Number(text) * unit);
  const steps = lengthWords(Number(toText(rule["resolutionSeconds"])));
  return length === null || steps === null ? length : `${length} in steps of ${steps}`;
}

function lengthWords(seconds: number): string | null {
  if (!Number.isInteger(seconds) || seconds <= 0) return null;
  const [size, name] = UNITS.find(([each]) => seconds % each === 0) ?? [1, "second"];
  const count = seconds / size;
  return `${count} ${name}${count === 1 ? "" : "s"}`;
}

/** A number with separators of thousands: 20,000.00. Other text stays as it is. */
export function groupDigits(text: string): string {
  if (!/^-?\d+(\.\d*)?$/u.test(text)) return text;
  const [whole = "", ...rest] = text.split(".");
  return [whole.replace(/(?<=\d)(?=(\d{3})+$)/gu, ","), ...rest].join(".");
}

function plural(noun: string): string {
  if (/[^aeiou]y$/u.test(noun)) return `${noun.slice(0, -1)}ies`;
  return /(s|x|ch|sh)$/u.test(noun) ? `${noun}es` : `${noun}s`;
}

function withArticle(noun: string): string {
  return /^[aeiou]/u.test(noun) ? `an ${noun}` : `a ${noun}`;
}
