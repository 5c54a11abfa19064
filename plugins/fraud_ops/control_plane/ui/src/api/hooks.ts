import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { done, failed } from "../parts/notices";
import { type Answer, call, get, type Options } from "./http";
import { keys } from "./keys";
import type { Me, Rules, Schema } from "./types";

/** Who asks, and what they may do. */
export function useMe() {
  return useQuery({ queryKey: keys.me, queryFn: ({ signal }) => get<Me>("/me", signal), staleTime: 60_000 });
}

/** Whether who asks may do this; the server decides again. */
export function useCan(): (permission: Me["can"][number]) => boolean {
  const { data } = useMe();
  return (permission) => data?.can.includes(permission) ?? false;
}

/** What rules may be made of. */
export function useSchema() {
  return useQuery({
    queryKey: keys.schema,
    queryFn: ({ signal }) => get<Schema>("/schema", signal),
    staleTime: 600_000,
  });
}

const MOST_AT_ONCE = 1_000;

/** Every rule. */
export function useRules() {
  return useQuery({
    queryKey: keys.ruleList,
    queryFn: async ({ signal }) => {
      const all = await get<Rules>(`/rules?limit=${MOST_AT_ONCE}`, signal);
      while (all.next !== null) {
        const more = await get<Rules>(`/rules?limit=${MOST_AT_ONCE}&cursor=${encodeURIComponent(all.next)}`, signal);
        all.items.push(...more.items);
        all.next = more.next;
      }
      return all;
    },
    refetchInterval: 60_000,
  });
}

/** The names of rules by id, as far as they are known. */
export function useRuleNames(): ReadonlyMap<number, string> {
  const { data } = useRules();
  return new Map(data?.items.map((row) => [row.ruleId, row.name ?? ""]));
}

/**
 * Something that changes the server: says how it went, and has what it affects read again. `said` may depend on the
 * answer, and is said also where whoever asked has closed the dialog since.
 */
export function useChange<V, T = unknown>(
  request: (variables: V) => { path: string } & Options,
  {
    said,
    affects = [],
    quiet = false,
  }: {
    said?: string | ((answer: Answer<T>) => string | null);
    affects?: readonly (readonly unknown[])[];
    quiet?: boolean;
  } = {},
) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (variables: V) => {
      const { path, ...options } = request(variables);
      return call<T>(path, options);
    },
    onSuccess: (answer) => {
      const text = typeof said === "function" ? said(answer) : said;
      if (text) done(text);
      affects.forEach((queryKey) => void client.invalidateQueries({ queryKey }));
    },
    onError: (error) => {
      if (!quiet) failed(error);
    },
  });
}
