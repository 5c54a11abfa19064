import aggregates from "./aggregates.json";
import { toText } from "./api/exactJson";
import type { RuleDocument } from "./api/types";

/** An aggregate function. bin/ui writes the file from `AggregateTraits` (aggregate.py), which describes the members. */
interface Aggregate {
  words: string;
  input: string;
  moreRows: string;
  /** Whether a baseline can have it. */
  comparable: boolean;
}

export const AGGREGATES: Readonly<Record<string, Aggregate>> = aggregates;

/** The aggregate function of a rule; undefined for a rule without a known one. */
export function aggregateOf(rule: RuleDocument): Aggregate | undefined {
  return AGGREGATES[toText(rule["aggregatorFunctionType"]).toUpperCase()];
}
