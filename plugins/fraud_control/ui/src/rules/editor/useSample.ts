import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/http";
import type { SampleRequest, SampleValue } from "../../api/types";
import { CACHE_MS, DEBOUNCE_MS } from "./useValidation";

/** A member of a rule that may be an expression. */
export type ExpressionMember = SampleRequest["member"];

/** The payment for which the editor shows the values of expressions. */
export interface SamplePayment {
  /** The payment as text: JSON, or a CSV line. Undefined until the server has named the newest one. */
  text: string | undefined;
  isEdited: boolean;
  /** Edits the payment; null returns to the newest one. */
  edit: (text: string | null) => void;
  /** The previous payment of its key as text; empty for none. */
  previous: string;
  editPrevious: (text: string) => void;
}

/** The sample payment of a rule: the newest one with an alert, until the user edits it. */
export function useSamplePayment(enabled: boolean): SamplePayment {
  const [edited, edit] = useState<string | null>(null);
  const [previous, editPrevious] = useState("");
  // An empty filter has no value, so that the response only names the payment.
  const { data } = useQuery(sampleQuery({ member: "filter", text: "" }, enabled));
  return { text: edited ?? data?.payment, isEdited: edited !== null, edit, previous, editPrevious };
}

/** The value of an expression for a payment; undefined until the server has answered. */
export function useSampleValue(member: ExpressionMember, text: string, sample: SamplePayment) {
  const [settledText] = useDebouncedValue(text, DEBOUNCE_MS);
  const [payment] = useDebouncedValue(sample.text, DEBOUNCE_MS);
  const [previous] = useDebouncedValue(sample.previous, DEBOUNCE_MS);
  const isAsked = text.trim() !== "" && settledText.trim() !== "" && payment !== undefined;
  const { data } = useQuery({
    ...sampleQuery({ member, text: settledText, payment: payment || null, previous: previous || null }, isAsked),
    placeholderData: keepPreviousData,
  });
  return isAsked ? data : undefined;
}

function sampleQuery(request: SampleRequest, enabled: boolean) {
  return {
    queryKey: ["sample", request.member, request.text, request.payment, request.previous],
    queryFn: async ({ signal }: { signal: AbortSignal }) =>
      (await call<SampleValue>("/rules/sample", { method: "POST", body: request, signal })).body,
    enabled,
    staleTime: CACHE_MS,
    gcTime: CACHE_MS,
    retry: 1,
  };
}
