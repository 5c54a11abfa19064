import { Anchor, Group, Table } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { ListRow, ListValues, Me } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { LoadMore } from "../components/LoadMore";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { Timestamp } from "../components/Timestamp";
import { TypedText } from "../components/TypedText";
import { ChangeDialog } from "./ChangeDialog";
import { listPath } from "./types";

const PAGE = 100;

/** The values of a list in order, with a search. */
export function ValuesPanel({ list, me }: { list: ListRow; me: Me }) {
  const [params, setParams] = useSearchParams();
  const query = params.get("q") ?? "";
  const [removed, setRemoved] = useState<string | null>(null);
  const values = useInfiniteQuery({
    queryKey: keys.listValues(list.name, query),
    queryFn: ({ pageParam, signal }) =>
      get<ListValues>(
        `${listPath(list.name)}/values${queryString({ q: query, limit: PAGE, cursor: pageParam })}`,
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const canChange = me.can.includes("draft") && !list.pendingApproval;
  return (
    <>
      <Group mb="sm">
        <TypedText
          label="Search values"
          title="A part of a value"
          value={query}
          change={(text) => setParams(text === "" ? {} : { q: text }, { replace: true })}
        />
      </Group>
      <QueryResult query={values}>
        {({ pages }) => {
          const items = pages.flatMap((page) => page.items);
          return items.length === 0 ? (
            <EmptyState>{query === "" ? "The list has no values" : "No matching values"}</EmptyState>
          ) : (
            <>
              <RowTable label="Values" columns={["Value", "Expires"]} actions={canChange}>
                {items.map(({ value, expiresAt }) => (
                  <Table.Tr key={value}>
                    <Table.Td className="code wrap">{value}</Table.Td>
                    <Table.Td>{expiresAt === null ? "–" : <Timestamp ms={expiresAt} />}</Table.Td>
                    {canChange && (
                      <Table.Td style={{ textAlign: "right" }}>
                        <Anchor
                          component="button"
                          type="button"
                          size="sm"
                          aria-label={`Remove ${value}`}
                          onClick={() => setRemoved(value)}
                        >
                          Remove
                        </Anchor>
                      </Table.Td>
                    )}
                  </Table.Tr>
                ))}
              </RowTable>
              <LoadMore query={values} label="Load more values" />
            </>
          );
        }}
      </QueryResult>
      {removed !== null && <ChangeDialog list={list} me={me} remove={removed} close={() => setRemoved(null)} />}
    </>
  );
}
