import { toText } from "../api/exactJson";
import type { RuleRow } from "../api/types";
import { SEVERITIES } from "../severity";

export type Column =
  "ruleId" | "state" | "alerts" | "precision" | "noise" | "severity" | "owner" | "revision" | "updatedAt";

const STATES = ["ACTIVE", "SIGNAL", "SHADOW", "PAUSE", "DRAFT", "DELETE"];
const RANKED: readonly string[] = [...SEVERITIES, ""];

/** The rows in a state that contain every word of a text: in id, name, description, owner or the rule itself. */
export function filterRules(rows: readonly RuleRow[], text: string, state: string | null): readonly RuleRow[] {
  const words = text.toLowerCase().split(/\s+/u).filter(Boolean);
  if (words.length === 0 && !state) return rows;
  return rows.filter((row) => {
    if (state && row.state !== state) return false;
    const all = searchText(row);
    return words.every((word) => all.includes(word));
  });
}

const searchTexts = new WeakMap<RuleRow, string>();

function searchText(row: RuleRow): string {
  let text = searchTexts.get(row);
  if (text === undefined) {
    text = [
      row.ruleId,
      row.name,
      row.description,
      row.owner,
      row.severity,
      row.updatedBy,
      ...Object.values(row.document).map(toText),
    ]
      .join(" ")
      .toLowerCase();
    searchTexts.set(row, text);
  }
  return text;
}

/** Sorts by a column, and by id within equal values. */
export function sortRules(rows: readonly RuleRow[], column: Column, descending: boolean): readonly RuleRow[] {
  const direction = descending ? -1 : 1;
  return [...rows].sort(
    (a, b) => direction * compare(sortValue(a, column), sortValue(b, column)) || a.ruleId - b.ruleId,
  );
}

function sortValue(row: RuleRow, column: Column): number | string {
  switch (column) {
    case "alerts":
      return -row.alertsLastHour.reduce((sum, each) => sum + each, 0);
    case "precision":
      return row.quality.precision ?? 2;
    case "noise":
      return -row.quality.falseAlertsPerDay;
    case "state":
      return STATES.indexOf(row.state);
    case "severity": {
      const rank = RANKED.indexOf((row.severity ?? "").toLowerCase());
      return rank < 0 ? RANKED.length : rank;
    }
    case "updatedAt":
      return -row.updatedAt;
    case "owner":
      return (row.owner ?? "").toLowerCase();
    default:
      return row[column];
  }
}

function compare(a: number | string, b: number | string): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b));
}
