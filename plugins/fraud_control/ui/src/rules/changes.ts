import { stringifyExactly } from "../api/exactJson";
import type { Change, RuleDocument } from "../api/types";

/** The members that a rollback does not restore. */
const NOT_CONTENT = new Set(["ruleState", "source", "disabled"]);

/** The differences that a rollback would make: all but those of the state. */
export function contentChanges(before: RuleDocument, after: RuleDocument): Change[] {
  return changesBetween(before, after).filter(({ field }) => !NOT_CONTENT.has(field));
}

/** Whether a rollback to a document would change nothing. */
export function sameContent(current: RuleDocument, old: RuleDocument): boolean {
  return contentChanges(current, old).length === 0;
}

/** The differences between two documents, by member. */
export function changesBetween(before: RuleDocument, after: RuleDocument): Change[] {
  const members = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return members
    .filter((field) => stringifyExactly(before[field] ?? null) !== stringifyExactly(after[field] ?? null))
    .map((field) => ({ field, before: before[field] ?? null, after: after[field] ?? null }));
}
