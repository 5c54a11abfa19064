import type { SearchFound } from "../api/types";
import { casePath, statusOf } from "../cases/caseQueue";
import { stateName } from "../components/Chip";
import { OUTCOME_NAMES } from "../decisions/OutcomeChip";
import { entityPath } from "../entity/entityPath";
import { fieldLabel, type Fields } from "../fields";
import { formatKey, formatNumber, formatTime } from "../format";

/** A finding: the page to open, its kind, and its name. */
export interface Hit {
  path: string;
  kind: string;
  name: string;
  note: string;
}

/** The findings of a search, the most specific kinds first. An id with no alerts comes last: it has a page, too. */
export function hitsOf(found: SearchFound, text: string, names: ReadonlyMap<number, string>, fields: Fields): Hit[] {
  const ids = (hasAlerts: boolean) =>
    found.ids
      .filter((each) => each.hasAlerts === hasAlerts)
      .flatMap(({ field }) => {
        const path = entityPath(field, text);
        const name = `Open ${fieldLabel(field, fields)} ${text}`;
        return path === null ? [] : [{ path, kind: "Entity", name, note: hasAlerts ? "" : "No alerts" }];
      });
  return [
    ...found.rules.map(({ ruleId, name, state }) => ({
      path: `/rules/${ruleId}`,
      kind: "Rule",
      name: `${ruleId} ${name || "(unnamed)"}`,
      note: stateName(state),
    })),
    ...ids(true),
    ...found.cases.map((each) => ({
      path: casePath(each.caseId),
      kind: "Case",
      name: `Case ${each.caseId}: ${fieldLabel(each.entityField, fields)} ${each.entityValue}`,
      note: statusOf(each)[1],
    })),
    ...found.decisions.map((each) => ({
      path: `/decisions?payment=${encodeURIComponent(each.transactionId)}`,
      kind: "Payment",
      name: `Payment ${each.transactionId}`,
      note: `${OUTCOME_NAMES[each.outcome]}, score ${formatNumber(each.score)}`,
    })),
    ...found.alerts.map(({ alertId, ruleId, key, time, shadow }) => ({
      path: `/alerts?alert=${alertId}`,
      kind: shadow ? "Shadow alert" : "Alert",
      name: `${names.get(ruleId) || `Rule ${ruleId}`}: ${formatKey(key, fields)}`,
      note: formatTime(time),
    })),
    ...ids(false),
  ];
}
