import type { Alert } from "./types";

/** The orders of the list. */
export const SORTS = {
  newest: "Newest first",
  oldest: "Oldest first",
  amount: "Largest amount",
  severity: "Highest severity",
} as const;

export const SEVERITIES = { critical: "Critical", high: "High", medium: "Medium", low: "Low", other: "Other" } as const;

export const VERDICTS = { UNREVIEWED: "Unreviewed", FRAUD: "Fraud", NOT_FRAUD: "Not fraud" } as const;

/**
 * The filter of the list; an empty or null member matches every alert. Its members have the names of the API's query
 * parameters and of the address. `since` and `until` are epoch ms or an age such as `24h`.
 */
export interface AlertFilter {
  ruleId: number | null;
  text: string;
  since: string;
  until: string;
  severity: readonly string[];
  minAmount: string;
  maxAmount: string;
  verdict: string;
  /** A member of the key, as FIELD:VALUE. */
  entity: string;
  caseId: number | null;
  /** One alert. The address of the page does not set it: there, `alert` names the open alert of a list. */
  alertId: string;
  shadow: boolean | null;
  corrections: boolean;
  snoozed: boolean;
  sort: string;
}

const DIGITS = /^\d+$/u;
const UNITS_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };
/** The server matches a shorter text with whole values only. */
const PREFIX_CHARS = 3;

/** Reads the filter from the address. */
export function filterOf(params: URLSearchParams): AlertFilter {
  const text = (name: string) => params.get(name) ?? "";
  return {
    ruleId: Number(text("ruleId")) || null,
    text: text("text"),
    since: text("since"),
    until: text("until"),
    severity: params.getAll("severity"),
    minAmount: text("minAmount"),
    maxAmount: text("maxAmount"),
    verdict: text("verdict"),
    entity: text("entity"),
    caseId: Number(text("caseId")) || null,
    alertId: "",
    shadow: { true: true, false: false }[text("shadow")] ?? null,
    corrections: text("corrections") !== "false",
    snoozed: text("snoozed") === "true",
    sort: text("sort") || "newest",
  };
}

/** The query parameters of a filter, for the address and for the API. Defaults are left out. */
export function parametersOf(filter: AlertFilter): [string, string][] {
  const { ruleId, caseId, severity, shadow, corrections, snoozed, sort, ...texts } = filter;
  return [
    ...(ruleId === null ? [] : [["ruleId", String(ruleId)] as [string, string]]),
    ...(caseId === null ? [] : [["caseId", String(caseId)] as [string, string]]),
    ...Object.entries(texts).filter(([, value]) => value !== ""),
    ...severity.map((each) => ["severity", each] as [string, string]),
    ...(shadow === null ? [] : [["shadow", String(shadow)] as [string, string]]),
    ...(corrections ? [] : [["corrections", "false"] as [string, string]]),
    ...(snoozed ? [["snoozed", "true"] as [string, string]] : []),
    ...(sort === "newest" ? [] : [["sort", sort] as [string, string]]),
  ];
}

/**
 * Whether new alerts join the list as they arrive: not in another order, not in a range that has ended, not beside a
 * single alert, and not in the list of a case, because an alert does not name its case.
 */
export function isLive(filter: AlertFilter): boolean {
  return filter.sort === "newest" && filter.until === "" && filter.caseId === null && filter.alertId === "";
}

/** Whether an alert matches the filter. `amountField` is the field that the API calls the amount. */
export function matches(alert: Alert, filter: AlertFilter, amountField: string | null, nowMs = Date.now()): boolean {
  if (filter.ruleId !== null && alert.ruleId !== filter.ruleId) return false;
  if (filter.shadow !== null && alert.shadow !== filter.shadow) return false;
  if (!filter.snoozed && alert.snoozed) return false;
  if (!filter.corrections && alert.correction !== null) return false;
  if (filter.severity.length > 0 && !filter.severity.includes(severityOf(alert))) return false;
  if (filter.verdict !== "" && (alert.mark?.verdict ?? "UNREVIEWED") !== filter.verdict) return false;
  return isInTime(alert, filter, nowMs) && isInAmounts(alert, filter, amountField) && hasTexts(alert, filter);
}

function severityOf(alert: Alert): string {
  const severity = alert.violatedRule["severity"];
  const known = typeof severity === "string" ? severity.toLowerCase() : "";
  return known in SEVERITIES ? known : "other";
}

function isInTime({ appendTime }: Alert, { since, until }: AlertFilter, nowMs: number): boolean {
  return (since === "" || appendTime >= timeOf(since, nowMs)) && (until === "" || appendTime < timeOf(until, nowMs));
}

/** The epoch ms of a time, which can be an age such as `24h`. */
export function timeOf(text: string, nowMs: number): number {
  return DIGITS.test(text) ? Number(text) : nowMs - Number(text.slice(0, -1)) * (UNITS_MS[text.slice(-1)] ?? NaN);
}

function isInAmounts({ triggeringEvent }: Alert, { minAmount, maxAmount }: AlertFilter, field: string | null): boolean {
  if (minAmount === "" && maxAmount === "") return true;
  const amount = field === null ? NaN : Number(triggeringEvent[field] ?? NaN);
  if (Number.isNaN(amount)) return false;
  return (minAmount === "" || amount >= Number(minAmount)) && (maxAmount === "" || amount <= Number(maxAmount));
}

function hasTexts(alert: Alert, { text, entity }: AlertFilter): boolean {
  const [field = "", ...rest] = entity.split(":");
  if (entity !== "" && String(alert.key[field]).toLowerCase() !== rest.join(":").toLowerCase()) return false;
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return true;
  const values = [...Object.values(alert.key), ...Object.values(alert.triggeringEvent)].map((each) =>
    String(each).toLowerCase(),
  );
  return values.some((value) => (wanted.length < PREFIX_CHARS ? value === wanted : value.startsWith(wanted)));
}
