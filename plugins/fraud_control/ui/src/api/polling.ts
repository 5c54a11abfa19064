import type { Query, QueryClient, QueryKey } from "@tanstack/react-query";

const MIN_PAUSE_MS = 1_000;

/**
 * The refetch interval of a query that events update between two reads. Each update restarts the timer of a query, so a
 * fixed interval never ends while events arrive faster. This one counts from the last read, whose time `patch` keeps.
 */
export function sinceLastRead(intervalMs: number) {
  return ({ state }: Pick<Query, "state">): number => {
    if (state.fetchStatus === "fetching") return intervalMs;
    const readAt = Math.max(state.dataUpdatedAt, state.errorUpdatedAt);
    return Math.max(MIN_PAUSE_MS, readAt + intervalMs - Date.now());
  };
}

/** Changes cached data by an event. The data stay as old as their last read, so they are read again when they are due. */
export function patch<T>(client: QueryClient, queryKey: QueryKey, update: (old: T) => T): void {
  const state = client.getQueryState<T>(queryKey);
  if (state?.data === undefined) return;
  client.setQueryData<T>(queryKey, update(state.data), { updatedAt: state.dataUpdatedAt });
}
