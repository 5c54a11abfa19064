import { queryOptions, useQuery } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Liveness } from "../api/types";

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

/** The liveness during an outage, otherwise undefined. */
export function useOutage(): Liveness | undefined {
  const liveness = useLiveness();
  return liveness && liveness.severity !== "NONE" ? liveness : undefined;
}
