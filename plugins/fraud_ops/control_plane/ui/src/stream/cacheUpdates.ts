import type { QueryClient } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Activation, Progress, ProgressPoint, RuleChanged, RuleDetail, RuleRow, Rules } from "../api/types";

const MAX_POINTS = 2_000;

/** Reads a changed rule again and replaces its row. Without a rule id, refetches all lists, and without a list's name
 * all rules.
 */
export async function refreshRule(client: QueryClient, { ruleId, listName }: RuleChanged): Promise<void> {
  void client.invalidateQueries({ queryKey: keys.approvals });
  if (ruleId === null) void client.invalidateQueries({ queryKey: keys.lists });
  if (listName !== null) return;
  if (ruleId === null) {
    await client.invalidateQueries({ queryKey: keys.rules });
    return;
  }
  void client.invalidateQueries({ queryKey: keys.versions(ruleId) });
  if (!client.getQueryData(keys.ruleList) && !client.getQueryData(keys.rule(ruleId))) return;
  try {
    const detail = await get<RuleDetail>(`/rules/${ruleId}`);
    client.setQueryData<RuleDetail>(keys.rule(ruleId), (old) => newerOf(old, detail));
    client.setQueryData<Rules>(keys.ruleList, (old) => old && { ...old, items: replaceRow(old.items, detail) });
  } catch {
    await client.invalidateQueries({ queryKey: keys.rules });
  }
}

/** Applies the detector's answer to a record of the rule log. */
export function applyActivation(client: QueryClient, activation: Activation): void {
  const { ruleId, listName } = activation;
  if (activation.status === "REJECTED") void client.invalidateQueries({ queryKey: keys.refused });
  if (listName !== null) void client.invalidateQueries({ queryKey: keys.lists });
  if (ruleId === null) return;
  const updated = <T extends RuleRow>(row: T): T =>
    row.ruleId === ruleId && row.activation?.logVersion === activation.logVersion ? { ...row, activation } : row;
  const row = client.getQueryData<Rules>(keys.ruleList)?.items.find((each) => each.ruleId === ruleId);
  const known = row ?? client.getQueryData<RuleDetail>(keys.rule(ruleId));
  client.setQueryData<Rules>(keys.ruleList, (old) => old && { ...old, items: old.items.map(updated) });
  client.setQueryData<RuleDetail>(keys.rule(ruleId), (old) => old && updated(old));
  void client.invalidateQueries({ queryKey: keys.versions(ruleId) });
  // The answer can arrive before the event about the change itself.
  if (known && (known.activation?.logVersion ?? -1) < activation.logVersion) {
    void refreshRule(client, { ruleId, revision: null, listName: null });
  }
}

/** Adds new alerts to the count of the current minute. */
export function countAlerts(client: QueryClient, ruleIds: readonly number[]): void {
  client.setQueryData<Rules>(
    keys.ruleList,
    (old) =>
      old && {
        ...old,
        items: old.items.map((row) => {
          const added = ruleIds.filter((each) => each === row.ruleId).length;
          if (added === 0) return row;
          const counts = [...row.alertsLastHour];
          counts[counts.length - 1] = (counts.at(-1) ?? 0) + added;
          return { ...row, alertsLastHour: counts };
        }),
      },
  );
}

/** Appends the metrics of a finished batch. */
export function appendProgress(client: QueryClient, point: ProgressPoint): void {
  client.setQueriesData<Progress>({ queryKey: keys.progress }, (old) =>
    old ? { ...old, points: [...old.points, point].slice(-MAX_POINTS) } : old,
  );
}

function replaceRow(rows: readonly RuleRow[], detail: RuleDetail): RuleRow[] {
  const others = rows.filter((row) => row.ruleId !== detail.ruleId);
  const newer = newerOf(
    rows.find((row) => row.ruleId === detail.ruleId),
    detail,
  );
  if (newer.state === "DELETE") return others;
  return [...others, newer].sort((a, b) => a.ruleId - b.ruleId);
}

/** The newer one of a known row and of one that was read. An answer of the detector can arrive while a rule is read, so the
 * read one can lack it.
 */
function newerOf<T extends RuleRow>(known: T | undefined, read: T): T {
  if (!known) return read;
  if (known.revision > read.revision) return known;
  const isAnswered = known.activation !== null && known.activation.status !== "PENDING";
  const lacksAnswer = isAnswered && read.activation?.status === "PENDING";
  return lacksAnswer && known.activation?.logVersion === read.activation?.logVersion
    ? { ...read, activation: known.activation }
    : read;
}
