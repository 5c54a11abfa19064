import { shown } from "../api/exactJson";
import type { Alerts } from "../api/types";
import type { Alert, CorrectionEvent, Mark } from "./types";

/** Which alerts are shown; empty or null means any. */
export interface AlertFilter {
  ruleId: number | null;
  key: string;
  shadow: boolean | null;
  corrections: boolean;
  snoozed: boolean;
}

/** What follows a list: how it goes on, how far back it was searched, what is no longer kept. */
export type Rest = Pick<Alerts, "next" | "searchedTo" | "missing">;

/** The alerts on the page; `fresh` are the ids of those that came last. */
export interface Listed {
  alerts: readonly Alert[];
  fresh: ReadonlySet<string>;
  rest: Rest;
}

/** So many are kept on the page; older ones are read again when asked for. */
export const KEPT = 400;

/** Whether an alert that comes in belongs to what is shown. */
export function wanted(alert: Alert, filter: AlertFilter): boolean {
  if (filter.ruleId !== null && alert.ruleId !== filter.ruleId) return false;
  if (filter.shadow !== null && alert.shadow !== filter.shadow) return false;
  if (!filter.snoozed && alert.snoozed) return false;
  if (!filter.corrections && alert.correction !== null) return false;
  const key = filter.key.toLowerCase();
  return key === "" || Object.values(alert.key).some((value) => shown(value).toLowerCase().includes(key));
}

/** The list with new alerts at its head: each once, newest first, bounded. */
export function withNews(old: readonly Alert[], news: readonly Alert[]): Alert[] {
  const ids = new Set(news.map((alert) => alert.alertId));
  const all = [...news, ...old.filter((alert) => !ids.has(alert.alertId))];
  return all.sort((a, b) => b.appendTime - a.appendTime).slice(0, KEPT);
}

/** The page with new alerts; where that leaves out the last ones, they are what follows. */
export function shownToo(old: Listed, news: readonly Alert[]): Listed {
  const alerts = withNews(old.alerts, news);
  const last = alerts.at(-1);
  const isCut = last !== undefined && old.alerts.length > 0 && last !== old.alerts.at(-1);
  return {
    alerts,
    fresh: new Set(news.map((alert) => alert.alertId)),
    rest: isCut ? { next: last.position, searchedTo: null, missing: null } : old.rest,
  };
}

/** The list with older alerts at its end, each once. */
export function withOlder(old: readonly Alert[], older: readonly Alert[]): Alert[] {
  const ids = new Set(old.map((alert) => alert.alertId));
  return [...old, ...older.filter((alert) => !ids.has(alert.alertId))];
}

/** The list after a correction: its alert says so in place; one that was missing is added. */
export function corrected(old: readonly Alert[], event: CorrectionEvent, filter: AlertFilter): readonly Alert[] {
  const correction = { kind: event.kind, time: event.time };
  if (old.some((alert) => alert.alertId === event.alertId)) {
    return old.map((alert) => (alert.alertId === event.alertId ? { ...alert, correction } : alert));
  }
  const added = event.alert && { ...event.alert, correction };
  return added && wanted(added, filter) ? withNews(old, [added]) : old;
}

/** The list with what somebody says of one of its alerts. */
export function marked(old: readonly Alert[], alertId: string, mark: Mark | null): readonly Alert[] {
  return old.map((alert) => (alert.alertId === alertId ? { ...alert, mark } : alert));
}
