import type { Alerts } from "../api/types";
import type { Alert, CorrectionEvent, Mark } from "./types";

/** The continuation of a list: the next page, how far back the server searched, and what retention removed. */
export type Continuation = Pick<Alerts, "next" | "searchedTo" | "missing">;

/** The alerts on the page. `newIds` are the ids of those that arrived last. */
export interface AlertList {
  alerts: readonly Alert[];
  newIds: ReadonlySet<string>;
  continuation: Continuation;
}

/** The maximum number of alerts on the page. Older ones are read again on request. */
export const MAX_ALERTS = 400;

/** Merges new alerts into the list: each once, newest first, at most `MAX_ALERTS`. */
export function mergeAlerts(old: readonly Alert[], added: readonly Alert[]): Alert[] {
  const ids = new Set(added.map((alert) => alert.alertId));
  const all = [...added, ...old.filter((alert) => !ids.has(alert.alertId))];
  return all.sort((a, b) => b.appendTime - a.appendTime).slice(0, MAX_ALERTS);
}

/** Adds new alerts to the page. If that cuts off the oldest ones, the list continues with them. */
export function addAlerts(old: AlertList, added: readonly Alert[]): AlertList {
  const alerts = mergeAlerts(old.alerts, added);
  const last = alerts.at(-1);
  const isTruncated = last !== undefined && old.alerts.length > 0 && last !== old.alerts.at(-1);
  return {
    alerts,
    newIds: new Set(added.map((alert) => alert.alertId)),
    continuation: isTruncated ? { next: last.position, searchedTo: null, missing: null } : old.continuation,
  };
}

/** Adds older alerts at the end of the list, each once. */
export function appendOlder(old: readonly Alert[], older: readonly Alert[]): Alert[] {
  const ids = new Set(old.map((alert) => alert.alertId));
  return [...old, ...older.filter((alert) => !ids.has(alert.alertId))];
}

/** Applies a correction: marks its alert in place, or adds an alert that was missing and matches. */
export function applyCorrection(
  old: readonly Alert[],
  event: CorrectionEvent,
  isWanted: (alert: Alert) => boolean,
): readonly Alert[] {
  const correction = { kind: event.kind, time: event.time };
  if (old.some((alert) => alert.alertId === event.alertId)) {
    return old.map((alert) => (alert.alertId === event.alertId ? { ...alert, correction } : alert));
  }
  const added = event.alert && { ...event.alert, correction };
  return added && isWanted(added) ? mergeAlerts(old, [added]) : old;
}

/** Sets or removes the mark of one alert. */
export function applyMark(old: readonly Alert[], alertId: string, mark: Mark | null): readonly Alert[] {
  return old.map((alert) => (alert.alertId === alertId ? { ...alert, mark } : alert));
}
