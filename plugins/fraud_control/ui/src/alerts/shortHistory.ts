import { toText } from "../api/exactJson";
import { fieldOf, type Fields } from "../fields";
import type { Alert } from "./types";

/** Aggregates that a longer history can only increase. */
const INCREASING = new Set(["COUNT", "COUNT_DISTINCT", "COUNT_WITH_RESET", "MAX"]);

/**
 * Whether the history of an alert's key is incomplete and more history could have prevented the alert. A count above its
 * limit stays above it, whatever came before.
 */
export function historyMatters(alert: Alert, fields: Fields): boolean {
  if (alert.windowComplete) return false;
  const rule = alert.violatedRule;
  if (rule["baseline"] !== undefined && rule["baseline"] !== null) return true;
  const operator = toText(rule["limitOperatorType"]);
  const aggregate = toText(rule["aggregatorFunctionType"]).toUpperCase();
  if (operator.startsWith(">"))
    return !(INCREASING.has(aggregate) || (aggregate === "SUM" && isNeverNegative(rule, fields)));
  return !(operator.startsWith("<") && aggregate === "MIN");
}

function isNeverNegative(rule: Alert["violatedRule"], fields: Fields): boolean {
  const name = toText(rule["aggregateFieldName"]);
  if (name.endsWith("_FLINK")) return true;
  return (fieldOf(name, fields)?.minimum ?? -1) >= 0;
}
