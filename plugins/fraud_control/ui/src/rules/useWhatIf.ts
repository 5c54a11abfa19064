import { useQuery } from "@tanstack/react-query";
import { useApiMutation } from "../api/hooks";
import { get } from "../api/http";
import type { RuleDocument, WhatIf, WhatIfStarted } from "../api/types";

const POLL_MS = 700;

interface Question {
  document: RuleDocument;
  days: number;
  windows: boolean;
  alertsPerDay?: number;
  precision?: number;
}

/** Starts a what-if and polls it until it ends. `id` is undefined before the first start. */
export function useWhatIf() {
  const start = useApiMutation<Question, WhatIfStarted>((body) => ({ path: "/whatif", method: "POST", body }), {
    quiet: true,
  });
  const id = start.data?.body.id;
  const answer = useQuery({
    queryKey: ["whatif", id],
    queryFn: ({ signal }) => get<WhatIf>(`/whatif/${id ?? ""}`, signal),
    enabled: id !== undefined,
    // The server does not restore a run that it has forgotten, so polling stops after an error.
    refetchInterval: ({ state: { data, error } }) =>
      error !== null || data?.status === "DONE" || data?.status === "FAILED" ? false : POLL_MS,
  });
  return { start, id, answer };
}
