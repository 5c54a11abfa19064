import type { Case, CaseOutcome, CaseStatus } from "../api/types";
import type { Tone } from "../components/Chip";

export const STATUSES: Record<CaseStatus, string> = { OPEN: "Open", IN_WORK: "In work", CLOSED: "Closed" };

/** The outcomes that a person can choose. */
export type Decision = Exclude<CaseOutcome, "EXPIRED" | "RETRACTED">;

export const DECISIONS: Record<Decision, string> = {
  FRAUD: "Fraud",
  NOT_FRAUD: "Not fraud",
  INCONCLUSIVE: "Inconclusive",
};

export const OUTCOMES: Record<CaseOutcome, string> = {
  ...DECISIONS,
  EXPIRED: "Expired without work",
  RETRACTED: "All alerts retracted",
};

/** The choices of the filter for the status. Without one, the queue has the cases that are not closed. */
export const STATUS_CHOICES = { OVERDUE: "Overdue", ...STATUSES, ANY: "Any status" };

export const OWNER_CHOICES = { mine: "My cases", handed: "Handed to me", unassigned: "Unassigned" };

export const CASE_SORTS = {
  severity: "Highest severity",
  oldest: "Oldest first",
  newest: "Latest alert first",
  due: "Due first",
} as const;

/** The filter of the queue, in the address. An empty member matches every case, but `status`: see STATUS_CHOICES. */
export interface CaseFilter {
  status: string;
  owner: string;
  severity: readonly string[];
  ruleId: number | null;
  entity: string;
  text: string;
  /** All alerts of a case from here on, and before `until`, in epoch ms; null for any time. */
  since: number | null;
  until: number | null;
  /** Only cases without an alert of another rule than `ruleId`. */
  onlyRule: boolean;
  sort: string;
}

/** Reads the filter from the address. */
export function caseFilterOf(params: URLSearchParams): CaseFilter {
  const text = (name: string) => params.get(name) ?? "";
  return {
    status: text("status"),
    owner: text("owner"),
    severity: params.getAll("severity"),
    ruleId: Number(text("ruleId")) || null,
    entity: text("entity"),
    text: text("text"),
    since: Number(text("since")) || null,
    until: Number(text("until")) || null,
    onlyRule: text("onlyRule") === "true",
    sort: text("sort") || "severity",
  };
}

/** The query string of a filter for the address, without the question mark. Defaults are left out. */
export function caseAddress(filter: CaseFilter): string {
  return queryOf([
    ["status", filter.status],
    ["owner", filter.owner],
    ["ruleId", filter.ruleId === null ? "" : String(filter.ruleId)],
    ["entity", filter.entity],
    ["text", filter.text],
    ...timesOf(filter),
    ["sort", filter.sort === "severity" ? "" : filter.sort],
    ...filter.severity.map((each): [string, string] => ["severity", each]),
  ]);
}

/** The query string of a filter for the API. `user` is the user of "My cases". */
export function caseQuery(filter: CaseFilter, user: string): string {
  const open = ["OPEN", "IN_WORK"];
  const statuses = { "": open, OVERDUE: open, ANY: [] }[filter.status] ?? [filter.status];
  return queryOf([
    ...statuses.map((each): [string, string] => ["status", each]),
    ["overdue", filter.status === "OVERDUE" ? "true" : ""],
    ["assignee", filter.owner === "mine" || filter.owner === "handed" ? user : ""],
    ["handed", filter.owner === "handed" ? "true" : ""],
    ["unassigned", filter.owner === "unassigned" ? "true" : ""],
    ["ruleId", filter.ruleId === null ? "" : String(filter.ruleId)],
    ["entity", filter.entity],
    ["text", filter.text],
    ...timesOf(filter),
    ["sort", filter.sort],
    ...filter.severity.map((each): [string, string] => ["severity", each]),
  ]);
}

function timesOf({ since, until, onlyRule }: CaseFilter): [string, string][] {
  return [
    ["since", since === null ? "" : String(since)],
    ["until", until === null ? "" : String(until)],
    ["onlyRule", onlyRule ? "true" : ""],
  ];
}

/** The address of the open cases that only one revision of a rule opened: between two times, without another rule. */
export function openedByPath(ruleId: number, since: number, until: number): string {
  return `/cases?${queryOf([
    ["ruleId", String(ruleId)],
    ["since", String(since)],
    ["until", String(until)],
    ["onlyRule", "true"],
  ])}`;
}

/** The address of a case. `address` is the query string of the queue from which the user comes. */
export function casePath(caseId: number, address = ""): string {
  return `/cases/${caseId}${address === "" ? "" : `?${address}`}`;
}

/** The colour and the words for the status of a case. */
export function statusOf({ status, outcome }: Pick<Case, "status" | "outcome">): [Tone, string] {
  if (outcome === null) return [status === "OPEN" ? "warn" : "good", STATUSES[status]];
  return [outcome === "FRAUD" ? "bad" : "quiet", `${STATUSES[status]}: ${OUTCOMES[outcome].toLowerCase()}`];
}

function queryOf(parameters: readonly [string, string][]): string {
  return new URLSearchParams(parameters.filter(([, value]) => value !== "").map((each) => [...each])).toString();
}
