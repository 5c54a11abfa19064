import { useQuery } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Receivers, Subscriptions } from "../api/types";

const REFRESH_MS = 10_000;

/** The receivers of the settings, with their counts of deliveries. */
export function useReceivers() {
  return useQuery({
    queryKey: keys.receivers,
    queryFn: ({ signal }) => get<Receivers>("/receivers", signal),
    refetchInterval: REFRESH_MS,
  });
}

/** All subscriptions. */
export function useSubscriptions() {
  return useQuery({
    queryKey: keys.subscriptions,
    queryFn: ({ signal }) => get<Subscriptions>("/subscriptions", signal),
    refetchInterval: REFRESH_MS,
  });
}
