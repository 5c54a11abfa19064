import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "../../api/http";
import type { Reason, RuleDetail, Validation } from "../../api/types";
import { type Draft, requestBody } from "./draft";

export const DEBOUNCE_MS = 200;
export const CACHE_MS = 60_000;

export interface ValidationState {
  /** The result for exactly this text; undefined until the server has answered. */
  current: Validation | undefined;
  /** The last result, also for an earlier text. It stays visible while the user types. */
  last: Validation | undefined;
  reasons: readonly Reason[];
  error: unknown;
  /** Validates exactly this text at once. Null if the server gives no result. */
  validateNow: () => Promise<Validation | null>;
}

/**
 * Validates the draft on the server while the user types. A result counts only for its own text, and for the revision
 * with which the server compared it.
 */
export function useValidation(draft: Draft, rule: RuleDetail | null, enabled: boolean): ValidationState {
  const [text] = useDebouncedValue(draft.text, DEBOUNCE_MS);
  const settled = text === draft.text;
  const client = useQueryClient();
  const { data, error, isPlaceholderData } = useQuery({
    ...validationQuery({ ...draft, text }, rule),
    enabled: enabled && settled && text.trim() !== "",
    placeholderData: keepPreviousData,
  });
  const current = settled && !isPlaceholderData ? data : undefined;
  const validateNow = () => client.query(validationQuery(draft, rule)).catch(() => null);
  return { current, last: data, reasons: data?.reasons ?? [], error, validateNow };
}

function validationQuery(draft: Draft, rule: RuleDetail | null) {
  const ruleId = rule?.ruleId ?? null;
  return queryOptions({
    queryKey: ["validate", ruleId, rule?.revision, draft.format, draft.text],
    queryFn: async ({ signal }) =>
      (await call<Validation>("/rules/validate", { method: "POST", body: { ...requestBody(draft), ruleId }, signal }))
        .body,
    staleTime: CACHE_MS,
    gcTime: CACHE_MS,
    retry: 1,
  });
}
