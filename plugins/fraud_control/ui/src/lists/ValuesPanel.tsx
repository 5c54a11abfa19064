import { Anchor, Group, Table } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { ListValues, MapEntries, Me } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { LoadMore } from "../components/LoadMore";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { Timestamp } from "../components/Timestamp";
import { TypedText } from "../components/TypedText";
import { ChangeDialog } from "./ChangeDialog";
import { capital, type CollectionRow, kindOf, MAP, pathOf } from "./types";

const PAGE = 100;

/** The values of a list, or the entries of a map, in order, with a search. */
export function ValuesPanel({ list, me }: { list: CollectionRow; me: Me }) {
  const kind = kindOf(list);
  const [params, setParams] = useSearchParams();
  const query = params.get("q") ?? "";
  const [removed, setRemoved] = useState<string | null>(null);
  const values = useInfiniteQuery({
    queryKey: keys.collectionContent(kind.plural, list.name, query),
    queryFn: ({ pageParam, signal }) =>
      get<ListValues | MapEntries>(
        `${pathOf(kind, list.name)}/${kind.content}${queryString({ q: query, limit: PAGE, cursor: pageParam })}`,
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const columns = kind === MAP ? ["Key", "Value", "Expires"] : ["Value", "Expires"];
  const canChange = me.can.includes("draft") && !list.pendingApproval;
  return (
    <>
      <Group mb="sm">
        <TypedText
          label={kind === MAP ? "Search keys" : "Search values"}
          title={kind === MAP ? "A part of a key" : "A part of a value"}
          value={query}
          change={(text) => setParams(text === "" ? {} : { q: text }, { replace: true })}
        />
      </Group>
      <QueryResult query={values}>
        {({ pages }) => {
          const items = pages.flatMap((page) => page.items.map(rowOf));
          return items.length === 0 ? (
            <EmptyState>
              {query === "" ? `The ${kind.name} has no ${kind.content}` : `No matching ${kind.content}`}
            </EmptyState>
          ) : (
            <>
              <RowTable label={capital(kind.content)} columns={columns} actions={canChange}>
                {items.map(({ member, value, expiresAt }) => (
                  <Table.Tr key={member}>
                    <Table.Td className="code wrap">{member}</Table.Td>
                    {kind === MAP && <Table.Td className="code wrap">{value}</Table.Td>}
                    <Table.Td>{expiresAt === null ? "–" : <Timestamp ms={expiresAt} />}</Table.Td>
                    {canChange && (
                      <Table.Td style={{ textAlign: "right" }}>
                        <Anchor
                          component="button"
                          type="button"
                          size="sm"
                          aria-label={`Remove ${member}`}
                          onClick={() => setRemoved(member)}
                        >
                          Remove
                        </Anchor>
                      </Table.Td>
                    )}
                  </Table.Tr>
                ))}
              </RowTable>
              <LoadMore query={values} label={`Load more ${kind.content}`} />
            </>
          );
        }}
      </QueryResult>
      {removed !== null && <ChangeDialog list={list} me={me} remove={removed} close={() => setRemoved(null)} />}
    </>
  );
}

type Item = (ListValues | MapEntries)["items"][number];

/** A value of a list, or a key of a map with its value. */
function rowOf(item: Item): { member: string; value: string; expiresAt: number | null } {
  return { member: "key" in item ? item.key : item.value, value: item.value, expiresAt: item.expiresAt };
}
