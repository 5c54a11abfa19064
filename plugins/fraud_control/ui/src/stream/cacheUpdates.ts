import type { QueryClient } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import { patch } from "../api/polling";
import { reread } from "../api/reread";
import type { Activation, RuleChanged, RuleDetail, RuleRow, Rules } from "../api/types";

/** Reads a changed rule again and replaces its row. Without a rule id, refetches all lists and maps, and without the
 * name of one all rules.
 */
export async function refreshRule(client: QueryClient, { ruleId, listName, mapName }: RuleChanged): Promise<void> {
  reread(client, keys.approvals);
  if (ruleId === null && mapName === null) reread(client, keys.lists);
  if (ruleId === null && listName === null) reread(client, keys.maps);
  if (listName !== null || mapName !== null) return;
  if (ruleId === null) {
    reread(client, keys.rules);
    return;
  }
  reread(client, keys.versions(ruleId));
  if (!client.getQueryData(keys.ruleList) && !client.getQueryData(keys.rule(ruleId))) return;
  try {
    const detail = await get<RuleDetail>(`/rules/${ruleId}`);
    client.setQueryData<RuleDetail>(keys.rule(ruleId), (old) => newerOf(old, detail));
    patch<Rules>(client, keys.ruleList, (old) => ({ ...old, items: replaceRow(old.items, detail) }));
  } catch {
    reread(client, keys.rules);
  }
}

/** Applies the detector's answer to a record of the rule log. */
export function applyActivation(client: QueryClient, activation: Activation): void {
  const { ruleId, listName, mapName } = activation;
  if (activation.status === "REJECTED") reread(client, keys.refused);
  if (listName !== null) reread(client, keys.lists);
  if (mapName !== null) reread(client, keys.maps);
  if (ruleId === null) return;
  const updated = <T extends RuleRow>(row: T): T =>
    row.ruleId === ruleId && row.activation?.logVersion === activation.logVersion ? { ...row, activation } : row;
  const row = client.getQueryData<Rules>(keys.ruleList)?.items.find((each) => each.ruleId === ruleId);
  const known = row ?? client.getQueryData<RuleDetail>(keys.rule(ruleId));
  patch<Rules>(client, keys.ruleList, (old) => ({ ...old, items: old.items.map(updated) }));
  patch<RuleDetail>(client, keys.rule(ruleId), updated);
  reread(client, keys.versions(ruleId));
  // The answer can arrive before the event about the change itself.
  if (known && (known.activation?.logVersion ?? -1) < activation.logVersion) {
    void refreshRule(client, { ruleId, revision: null, listName: null, mapName: null });
  }
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
