import { hashKey, type QueryClient, type QueryKey } from "@tanstack/react-query";

/** The pause between two reads of the same query because of events. */
const PAUSE_MS = 1_000;

/** Whether another event arrived, by query, since the last read began. */
const running = new WeakMap<QueryClient, Map<string, boolean>>();

/**
 * Reads queries again because of an event. An event never cancels the read of an earlier one, so reads end however fast
 * the events arrive. One more read follows, because the running read can lack the change.
 */
export function reread(client: QueryClient, queryKey: QueryKey): void {
  const reads = running.get(client) ?? new Map<string, boolean>();
  running.set(client, reads);
  const name = hashKey(queryKey);
  if (reads.has(name)) {
    reads.set(name, true);
    return;
  }
  reads.set(name, false);
  void client
    .invalidateQueries({ queryKey })
    .then(() => new Promise((resolve) => setTimeout(resolve, PAUSE_MS)))
    .finally(() => {
      const again = reads.get(name);
      reads.delete(name);
      if (again) reread(client, queryKey);
    });
}
