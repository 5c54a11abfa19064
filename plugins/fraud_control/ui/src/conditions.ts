import { toText } from "./api/exactJson";
import type { RuleDocument } from "./api/types";

const OWN_AGGREGATE = [
  "aggregatorFunctionType",
  "aggregateFieldName",
  "limitOperatorType",
  "limit",
  "windowMinutes",
  "windowSeconds",
  "windowCalendar",
  "zone",
  "baseline",
] as const;

/** The conditions of a rule, with the members that they inherit from it. */
export function conditionsOf(rule: RuleDocument): RuleDocument[] {
  const conditions = rule["conditions"];
  if (!Array.isArray(conditions)) return [];
  const inherited = { aggregateFieldName: rule["aggregateFieldName"], filter: rule["filter"] };
  return conditions
    .filter((each): each is RuleDocument => typeof each === "object" && each !== null)
    .map((each) => ({ ...inherited, ...each }));
}

/** Whether a rule has an aggregate of its own, and not only conditions. */
export function hasAggregate(rule: RuleDocument): boolean {
  const given = (name: string) => rule[name] !== undefined && rule[name] !== null;
  return !given("conditions") || OWN_AGGREGATE.some(given);
}

/** How many of the conditions must hold: all, any, none, at least 2. */
export function requiredText(rule: RuleDocument, conditions: number): string {
  const require = toText(rule["require"]) || "all";
  if (require === "none") return "none";
  const least = require === "all" ? conditions : require === "any" ? 1 : Number(require);
  if (least === conditions) return "all";
  return least === 1 ? "any" : `at least ${require}`;
}
