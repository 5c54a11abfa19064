import { shown } from "../api/exactJson";
import type { Liveness, RuleDocument } from "../api/types";

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** 12,345 or 12.3; a dash for what is not known. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return Number.isInteger(value) ? whole.format(value) : short.format(value);
}

/** A share as a percentage. */
export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`;
}

/** The verdict as words. Its own limits are longer than those of an outage, so that it can still be HEALTHY in one. */
export function verdictName({ severity, verdict }: Liveness): string {
  return severity !== "NONE" && verdict.name === "HEALTHY" ? "DELAYED" : verdict.name.replaceAll("_", " ");
}

/** A part of a whole: 12.5 % of 2,000. */
export function share(part: number, whole: number): string {
  return whole === 0 ? "–" : `${number(Math.round((1_000 * part) / whole) / 10)} % of ${number(whole)}`;
}

/** The time of day; with the date when that is not today's. */
export function time(ms: number, now = Date.now()): string {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return "–";
  return at.toDateString() === new Date(now).toDateString()
    ? clock.format(at)
    : `${day.format(at)}, ${clock.format(at)}`;
}

/** 850 ms, 12 s, 3 min, 2 h, 4 d. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${number(Math.round(ms / 100) / 10)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} d`;
}

/** How long ago, in words for people. */
export function ago(ms: number, now = Date.now()): string {
  return now - ms < 5_000 ? "just now" : `${duration(now - ms)} ago`;
}

/** 1.2 GB. */
export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = count;
  let unit = 0;
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${number(Math.round(value * 10) / 10)} ${units[unit] ?? ""}`;
}

/** What a rule says, as a formula: SUM(paymentAmount) > 20000 in 20 min per payeeId. */
export function formula(rule: RuleDocument): string {
  const aggregator = aggregated(rule);
  const counted = shown(rule["unique"]) || (aggregator.startsWith("COUNT") ? "" : shown(rule["aggregateFieldName"]));
  const compared = `${shown(rule["limitOperatorType"]) || "?"} ${shown(rule["limit"]) || "?"}`;
  return `${aggregator}(${counted}) ${compared} in ${span(rule)} ${grouping(rule["groupingKeyNames"])}`;
}

/** A rule without grouping keys sees all payments as one group. */
function grouping(names: unknown): string {
  return Array.isArray(names) && names.length === 0 ? "over all payments" : `per ${shown(names) || "?"}`;
}

/** The aggregate of a rule. Rules of the Flink demo name a count as the field that they sum. */
function aggregated(rule: RuleDocument): string {
  const [, count] = /^(COUNT|COUNT_WITH_RESET)_FLINK$/u.exec(shown(rule["aggregateFieldName"])) ?? [];
  return count ?? (shown(rule["aggregatorFunctionType"]) || "?");
}

/** The window of a rule. */
export function span(rule: RuleDocument): string {
  if (rule["windowSeconds"] !== undefined) return `${shown(rule["windowSeconds"])} s`;
  return `${shown(rule["windowMinutes"]) || "?"} min`;
}

/** A key as text: payeeId 12 · beneficiaryId 7. */
export function keyText(key: Record<string, unknown> | null): string {
  if (key === null) return "all keys";
  return Object.entries(key)
    .map(([name, value]) => `${name} ${shown(value)}`)
    .join(" · ");
}
