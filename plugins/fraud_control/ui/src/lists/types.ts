import type { ListRow, StateName } from "../api/types";

/** The operations on the values of a list. */
export type Operation = "SET" | "ADD" | "REMOVE";

const STRONGEST_FIRST: StateName[] = ["ACTIVE", "PAUSE", "SHADOW"];

/** The state of the rules that decides who may change their list. A list without rules counts as a draft. */
export function strongestState({ rules }: Pick<ListRow, "rules">): StateName {
  return STRONGEST_FIRST.find((state) => rules.some((rule) => rule.state === state)) ?? "DRAFT";
}

/** The path of a list in the API. */
export function listPath(name: string): string {
  return `/lists/${encodeURIComponent(name)}`;
}
