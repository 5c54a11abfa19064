import { stringifyExactly } from "../api/exactJson";
import type { Change, RuleDocument } from "../api/types";

/** The differences between two documents, by member. */
export function changesBetween(before: RuleDocument, after: RuleDocument): Change[] {
  const members = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return members
    .filter((field) => stringifyExactly(before[field] ?? null) !== stringifyExactly(after[field] ?? null))
    .map((field) => ({ field, before: before[field] ?? null, after: after[field] ?? null }));
}
