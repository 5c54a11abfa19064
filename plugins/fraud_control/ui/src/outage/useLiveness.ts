import { queryOptions, useQuery } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Liveness } from "../api/types";
import { useNow, useShownAt } from "../useNow";

const POLL_MS = 5_000;

const livenessQuery = queryOptions({
  queryKey: keys.liveness,
  queryFn: ({ signal }) => get<Liveness>("/liveness", signal),
});

/** The liveness of the detector. All pages share one read every few seconds, so that they show the same state. */
export function useLivenessQuery() {
  return useQuery({ ...livenessQuery, refetchInterval: POLL_MS });
}

/** The liveness as the shell has read it. */
export function useLiveness(): Liveness | undefined {
  return useQuery({ ...livenessQuery, enabled: false }).data;
}

/** A page reads the liveness every few seconds. Without an answer for this long, its state is unknown. */
const SILENT_MS = 9_000;

export interface Silence {
  ms: number;
  /** The time of the last answer, or null if the server has not answered yet. */
  since: number | null;
}

/** How long the server has not answered a visible page, or null while it answers. */
export function useSilence(): Silence | null {
  const { dataUpdatedAt } = useQuery({ ...livenessQuery, enabled: false });
  const now = useNow();
  const shownAt = useShownAt();
  const ms = now - Math.max(dataUpdatedAt, shownAt);
  return ms < SILENT_MS ? null : { ms, since: dataUpdatedAt === 0 ? null : dataUpdatedAt };
}

/** The liveness during an outage, otherwise undefined. */
export function useOutage(): Liveness | undefined {
  const liveness = useLiveness();
  return liveness && liveness.severity !== "NONE" ? liveness : undefined;
}
