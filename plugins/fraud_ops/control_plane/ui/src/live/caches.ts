import type { QueryClient } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Activation, Progress, ProgressPoint, RuleChanged, RuleDetail, RuleRow, Rules } from "../api/types";

const MOST_POINTS = 2_000;

/** A rule was changed: bring its row up to date, or the whole list where all may have changed. */
export async function ruleChanged(client: QueryClient, { ruleId }: RuleChanged): Promise<void> {
  void client.invalidateQueries({ queryKey: keys.approvals });
  if (ruleId === null) {
    await client.invalidateQueries({ queryKey: keys.rules });
    return;
  }
  void client.invalidateQueries({ queryKey: keys.versions(ruleId) });
  if (!client.getQueryData(keys.ruleList) && !client.getQueryData(keys.rule(ruleId))) return;
  try {
    const detail = await get<RuleDetail>(`/rules/${ruleId}`);
    client.setQueryData<RuleDetail>(keys.rule(ruleId), (old) => (old && old.revision > detail.revision ? old : detail));
    client.setQueryData<Rules>(keys.ruleList, (old) => old && { ...old, items: withRow(old.items, detail) });
  } catch {
    await client.invalidateQueries({ queryKey: keys.rules });
  }
}

/** The detector has reported on a record of the rule log. */
export function operated(client: QueryClient, operation: Activation): void {
  const { ruleId } = operation;
  if (operation.status === "REJECTED") void client.invalidateQueries({ queryKey: keys.refused });
  if (ruleId === null) return;
  const judged = <T extends RuleRow>(row: T): T =>
    row.ruleId === ruleId && row.activation?.logVersion === operation.logVersion
      ? { ...row, activation: operation }
      : row;
  const row = client.getQueryData<Rules>(keys.ruleList)?.items.find((each) => each.ruleId === ruleId);
  const known = row ?? client.getQueryData<RuleDetail>(keys.rule(ruleId));
  client.setQueryData<Rules>(keys.ruleList, (old) => old && { ...old, items: old.items.map(judged) });
  client.setQueryData<RuleDetail>(keys.rule(ruleId), (old) => old && judged(old));
  void client.invalidateQueries({ queryKey: keys.versions(ruleId) });
  // The answer can be quicker than the news of the change that it is about.
  if (known && (known.activation?.logVersion ?? -1) < operation.logVersion) {
    void ruleChanged(client, { ruleId, revision: null });
  }
}

/** Another alert of a rule: its count of this minute. */
export function counted(client: QueryClient, ruleIds: readonly number[]): void {
  client.setQueryData<Rules>(
    keys.ruleList,
    (old) =>
      old && {
        ...old,
        items: old.items.map((row) => {
          const more = ruleIds.filter((each) => each === row.ruleId).length;
          if (more === 0) return row;
          const counts = [...row.alertsLastHour];
          counts[counts.length - 1] = (counts.at(-1) ?? 0) + more;
          return { ...row, alertsLastHour: counts };
        }),
      },
  );
}

/** The detector has finished a batch. */
export function progressed(client: QueryClient, point: ProgressPoint): void {
  client.setQueriesData<Progress>({ queryKey: keys.progress }, (old) =>
    old ? { ...old, points: [...old.points, point].slice(-MOST_POINTS) } : old,
  );
}

function withRow(rows: readonly RuleRow[], detail: RuleDetail): RuleRow[] {
  const others = rows.filter((row) => row.ruleId !== detail.ruleId);
  if (detail.state === "DELETE") return others;
  return [...others, detail].sort((a, b) => a.ruleId - b.ruleId);
}
