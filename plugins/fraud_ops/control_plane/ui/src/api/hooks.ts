import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { done, failed } from "../parts/notices";
import { type Answer, call, get, type Options, Problem } from "./http";
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

/** The statuses of what somebody else was quicker with. */
const OVERTAKEN = [409, 412];

/**
 * Something that changes the server: says how it went, and has what it affects read again, also where somebody else
 * was quicker. The answer is kept as what it `renews`; `said` may depend on it and, for what is new, `renews` too. A
 * `quiet` failure is shown by whoever asked. All of it is so as well where they have closed the dialog since, and then
 * the failure is said too.
 */
export function useChange<V, T = unknown>(
  request: (variables: V) => { path: string } & Options,
  {
    said,
    affects = [],
    renews,
    quiet = false,
  }: {
    said?: string | ((answer: Answer<T>) => string | null);
    affects?: readonly (readonly unknown[])[];
    renews?: readonly unknown[] | ((body: T) => readonly unknown[]);
    quiet?: boolean;
  } = {},
) {
  const client = useQueryClient();
  const here = useRef(true);
  useEffect(() => {
    here.current = true;
    return () => {
      here.current = false;
    };
  }, []);
  const reread = (names: readonly (readonly unknown[])[]) =>
    names.forEach((queryKey) => void client.invalidateQueries({ queryKey }));
  return useMutation({
    mutationFn: (variables: V) => {
      const { path, ...options } = request(variables);
      return call<T>(path, options);
    },
    onSuccess: (answer) => {
      const text = typeof said === "function" ? said(answer) : said;
      if (text) done(text);
      if (renews) client.setQueryData(typeof renews === "function" ? renews(answer.body) : renews, answer.body);
      reread(affects);
    },
    onError: (error) => {
      if (!quiet || !here.current) failed(error);
      if (error instanceof Problem && OVERTAKEN.includes(error.status)) {
        reread(renews && typeof renews !== "function" ? [...affects, renews] : affects);
      }
    },
  });
}
