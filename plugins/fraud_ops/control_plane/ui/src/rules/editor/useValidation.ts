import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { call } from "../../api/http";
import type { Reason, Validation } from "../../api/types";
import { type Draft, request } from "./draft";

const TYPING_MS = 200;
const KEPT_MS = 60_000;

export interface Judged {
  /** What the server says of this very text; undefined while it has not been asked, or has not answered. */
  current: Validation | undefined;
  /** The last answer, also one about an earlier text: kept in sight while one types. */
  last: Validation | undefined;
  reasons: readonly Reason[];
  error: unknown;
}

/** Has the server look at what is being typed. An answer counts only for the text that it is about. */
export function useValidation(draft: Draft, ruleId: number | null, enabled: boolean): Judged {
  const [text] = useDebouncedValue(draft.text, TYPING_MS);
  const settled = text === draft.text;
  const asked = { ...draft, text };
  const { data, error, isPlaceholderData } = useQuery({
    queryKey: ["validate", ruleId, draft.form, text],
    queryFn: async ({ signal }) =>
      (await call<Validation>("/rules/validate", { method: "POST", body: { ...request(asked), ruleId }, signal })).body,
    enabled: enabled && settled && text.trim() !== "",
    placeholderData: keepPreviousData,
    staleTime: KEPT_MS,
    gcTime: KEPT_MS,
    retry: 1,
  });
  const current = settled && !isPlaceholderData ? data : undefined;
  return { current, last: data, reasons: data?.reasons ?? [], error };
}
