import { useQuery } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Liveness } from "../api/types";

const POLL_MS = 5_000;

/** The liveness of the detector. The shell polls it; the pages read the cached value. */
export function useLiveness({ polls = false } = {}): Liveness | undefined {
  const { data } = useQuery({
    queryKey: keys.liveness,
    queryFn: ({ signal }) => get<Liveness>("/liveness", signal),
    enabled: polls,
    refetchInterval: POLL_MS,
  });
  return data;
}

/** The liveness during an outage, otherwise undefined. */
export function useOutage(): Liveness | undefined {
  const liveness = useLiveness();
  return liveness && liveness.severity !== "NONE" ? liveness : undefined;
}
