import { useQuery } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Liveness } from "../api/types";

const POLL_MS = 5_000;

/** Whether payments are evaluated now. The frame of every page asks; the pages themselves read what it knows. */
export function useLiveness({ asks = false } = {}): Liveness | undefined {
  const { data } = useQuery({
    queryKey: keys.liveness,
    queryFn: ({ signal }) => get<Liveness>("/liveness", signal),
    enabled: asks,
    refetchInterval: POLL_MS,
  });
  return data;
}

/** An outage, if there is one. */
export function useOutage(): Liveness | undefined {
  const liveness = useLiveness();
  return liveness && liveness.severity !== "NONE" ? liveness : undefined;
}
