import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "../../api/http";
import type { Reason, RuleDetail, Validation } from "../../api/types";
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
  /** The answer about this very text, asked for at once where there is none yet; null where it cannot be had. */
  ask: () => Promise<Validation | null>;
}

/**
 * Has the server look at what is being typed. An answer counts only for the text that it is about, and for the version
 * that it was compared with.
 */
export function useValidation(draft: Draft, rule: RuleDetail | null, enabled: boolean): Judged {
  const [text] = useDebouncedValue(draft.text, TYPING_MS);
  const settled = text === draft.text;
  const client = useQueryClient();
  const { data, error, isPlaceholderData } = useQuery({
    ...question({ ...draft, text }, rule),
    enabled: enabled && settled && text.trim() !== "",
    placeholderData: keepPreviousData,
  });
  const current = settled && !isPlaceholderData ? data : undefined;
  const ask = () => client.query(question(draft, rule)).catch(() => null);
  return { current, last: data, reasons: data?.reasons ?? [], error, ask };
}

function question(draft: Draft, rule: RuleDetail | null) {
  const ruleId = rule?.ruleId ?? null;
  return queryOptions({
    queryKey: ["validate", ruleId, rule?.revision, draft.form, draft.text],
    queryFn: async ({ signal }) =>
      (await call<Validation>("/rules/validate", { method: "POST", body: { ...request(draft), ruleId }, signal })).body,
    staleTime: KEPT_MS,
    gcTime: KEPT_MS,
    retry: 1,
  });
}
