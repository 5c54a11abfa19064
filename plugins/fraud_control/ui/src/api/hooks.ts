import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { notifyError, notifySuccess } from "../notifications";
import { type ApiResponse, type CallOptions, get, Problem, queryString } from "./http";
import { keys } from "./keys";
import { sinceLastRead } from "./polling";
import type { Entity, Lists, Maps, Me, RuleDetail, RuleNames, Rules, Schema } from "./types";
import { useSubmission } from "./useSubmission";

export const meQuery = queryOptions({
  queryKey: keys.me,
  queryFn: ({ signal }) => get<Me>("/me", signal),
  staleTime: 60_000,
});

/** The user with their role and permissions. */
export function useMe() {
  return useQuery(meQuery);
}

/** Returns a check of the user's permissions. The server checks them again. */
export function useCan(): (permission: Me["can"][number]) => boolean {
  const { data } = useMe();
  return (permission) => data?.can.includes(permission) ?? false;
}

export const schemaQuery = queryOptions({
  queryKey: keys.schema,
  queryFn: ({ signal }) => get<Schema>("/schema", signal),
  staleTime: 600_000,
});

/** The schema of rules: fields, aggregates, operators, actions and states. */
export function useSchema() {
  return useQuery(schemaQuery);
}

/** One rule. `id` is text, because it comes from the address. */
export function ruleQuery(id: string) {
  return queryOptions({
    queryKey: keys.rule(Number(id)),
    queryFn: ({ signal }) => get<RuleDetail>(`/rules/${encodeURIComponent(id)}`, signal),
  });
}

/** The report about a value of a field over the last days. */
export function entityQuery({ field, value, days }: Record<"field" | "value" | "days", string>) {
  return queryOptions({
    queryKey: keys.entity(field, value, days),
    queryFn: ({ signal }) => get<Entity>(`/entity${queryString({ field, value, days })}`, signal),
    staleTime: 30_000,
  });
}

const PAGE_SIZE = 1_000;

/** All rules, read page by page. */
export function useRules() {
  return useQuery({
    queryKey: keys.ruleList,
    queryFn: async ({ signal }) => {
      const all = await get<Rules>(`/rules?limit=${PAGE_SIZE}`, signal);
      while (all.next !== null) {
        const more = await get<Rules>(`/rules?limit=${PAGE_SIZE}&cursor=${encodeURIComponent(all.next)}`, signal);
        all.items.push(...more.items);
        all.next = more.next;
      }
      return all;
    },
    refetchInterval: sinceLastRead(60_000),
  });
}

/** All lists by name. */
export function useLists() {
  return useQuery({ queryKey: keys.lists, queryFn: ({ signal }) => get<Lists>("/lists", signal) });
}

/** All maps by name. */
export function useMaps() {
  return useQuery({ queryKey: keys.maps, queryFn: ({ signal }) => get<Maps>("/maps", signal) });
}

const NO_NAMES: ReadonlyMap<number, string> = new Map();

/** The names of all rules by id. */
export function useRuleNames(): ReadonlyMap<number, string> {
  const { data } = useQuery({
    queryKey: keys.ruleNames,
    queryFn: async ({ signal }) => {
      const { items } = await get<RuleNames>("/rules/names", signal);
      return new Map(items.map(({ ruleId, name }) => [ruleId, name]));
    },
    staleTime: 30_000,
    refetchInterval: 60_000,
  });
  return data ?? NO_NAMES;
}

/** The statuses of a request that lost against another user's change. */
const CONFLICT_STATUSES = [409, 412];

/**
 * A request that changes the server. A success shows `successMessage`, stores the response under the query key `updates`
 * and refetches the keys in `invalidates`. A conflict with another user's change refetches them too.
 *
 * A failure shows a notification. With `quiet` the caller shows the error instead, as long as it is mounted. All of this
 * also happens after the caller has unmounted, for example because the user closed the dialog.
 */
export function useApiMutation<V, T = unknown>(
  request: (variables: V) => { path: string } & CallOptions,
  {
    successMessage,
    invalidates = [],
    updates,
    quiet = false,
  }: {
    successMessage?: string | ((answer: ApiResponse<T>) => string | null);
    invalidates?: readonly (readonly unknown[])[];
    updates?: readonly unknown[] | ((body: T) => readonly unknown[]);
    quiet?: boolean;
  } = {},
) {
  const client = useQueryClient();
  const submit = useSubmission();
  const mounted = useRef(true);
  useEffect(() => {
    mounted.current = true;
    return () => {
      mounted.current = false;
    };
  }, []);
  const invalidate = (names: readonly (readonly unknown[])[]) =>
    names.forEach((queryKey) => void client.invalidateQueries({ queryKey }));
  return useMutation({
    mutationFn: (variables: V) => {
      const { path, ...options } = request(variables);
      return submit<T>(path, options);
    },
    onSuccess: (answer) => {
      const text = typeof successMessage === "function" ? successMessage(answer) : successMessage;
      if (text) notifySuccess(text);
      if (updates) client.setQueryData(typeof updates === "function" ? updates(answer.body) : updates, answer.body);
      invalidate(invalidates);
    },
    onError: (error) => {
      if (!quiet || !mounted.current) notifyError(error);
      if (error instanceof Problem && CONFLICT_STATUSES.includes(error.status)) {
        invalidate(updates && typeof updates !== "function" ? [...invalidates, updates] : invalidates);
      }
    },
  });
}
