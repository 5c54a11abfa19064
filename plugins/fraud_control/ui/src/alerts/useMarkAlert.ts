import { useApiMutation } from "../api/hooks";
import { queryString } from "../api/http";
import { keys } from "../api/keys";
import type { Alert, Mark } from "./types";

/** Marks an alert; null removes its mark. */
export function useMarkAlert() {
  return useApiMutation<{ alert: Pick<Alert, "alertId" | "position">; verdict: Mark["verdict"] | null }, Mark | null>(
    ({ alert: { alertId, position }, verdict }) =>
      verdict === null
        ? { path: `/alerts/${alertId}/mark`, method: "DELETE" }
        : { path: `/alerts/${alertId}/mark${queryString({ position })}`, method: "PUT", body: { verdict } },
    { invalidates: [keys.cases] },
  );
}
