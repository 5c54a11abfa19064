import { aggregateOf } from "../aggregates";
import { toText } from "../api/exactJson";
import { fieldOf, type Fields } from "../fields";
import type { Alert } from "./types";

/**
 * Whether the history of an alert's key is incomplete and more history could have prevented the alert. A count above its
 * limit stays above it, whatever came before.
 */
export function historyMatters(alert: Alert, fields: Fields): boolean {
  if (alert.windowComplete) return false;
  const rule = alert.violatedRule;
  if (rule["baseline"] !== undefined && rule["baseline"] !== null) return true;
  const operator = toText(rule["limitOperatorType"]);
  const effect = aggregateOf(rule)?.moreRows;
  if (operator.startsWith(">"))
    return !(effect === "RISE" || (effect === "RISE_UNLESS_NEGATIVE" && isNeverNegative(rule, fields)));
  return !(operator.startsWith("<") && effect === "FALL");
}

function isNeverNegative(rule: Alert["violatedRule"], fields: Fields): boolean {
  const name = toText(rule["aggregateFieldName"]);
  if (name.endsWith("_FLINK")) return true;
  return (fieldOf(name, fields)?.minimum ?? -1) >= 0;
}
