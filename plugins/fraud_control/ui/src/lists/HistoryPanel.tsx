import { Anchor, Table } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { CollectionDiff, CollectionVersions } from "../api/types";
import { ActivationChip, Chip } from "../components/Chip";
import { LoadMore } from "../components/LoadMore";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { Timestamp } from "../components/Timestamp";
import { formatNumber } from "../format";
import { DiffTable } from "./DiffTable";
import { capital, type CollectionKind, type CollectionRow, kindOf, pathOf } from "./types";

const PAGE = 50;
const NAMES = { SET: "Set", ADD: "Added", REMOVE: "Removed", DELETE: "Deleted" } as const;

/** All changes of a list or map, with author and comment, and the values of one change. */
export function HistoryPanel({ list, canRead }: { list: CollectionRow; canRead: boolean }) {
  const kind = kindOf(list);
  const [compared, setCompared] = useState<number | null>(null);
  const versions = useInfiniteQuery({
    queryKey: keys.collectionVersions(kind.plural, list.name),
    queryFn: ({ pageParam, signal }) =>
      get<CollectionVersions>(
        `${pathOf(kind, list.name)}/versions${queryString({ limit: PAGE, before: pageParam })}`,
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  return (
    <QueryResult query={versions}>
      {({ pages }) => (
        <>
          <RowTable label="Changes" columns={["Revision", "Change", "Status", "Author", "Comment"]} actions>
            {pages
              .flatMap((page) => page.items)
              .map((each, i) => (
                <Table.Tr key={each.revision}>
                  <Table.Td className="number" style={{ whiteSpace: "nowrap" }}>
                    {each.revision}
                    <div style={{ color: "var(--mantine-color-dimmed)", fontSize: "0.75rem" }}>
                      {each.logVersion === null ? "not in the rule log" : `${kind.name} version ${each.logVersion}`}
                    </div>
                  </Table.Td>
                  <Table.Td style={{ whiteSpace: "nowrap" }}>
                    {NAMES[each.operation]}: +{formatNumber(each.added)} −{formatNumber(each.removed)}
                    {each.expiresAt !== null && (
                      <div style={{ fontSize: "0.75rem" }}>
                        until <Timestamp ms={each.expiresAt} />
                      </div>
                    )}
                  </Table.Td>
                  <Table.Td>
                    {i > 0 && each.activation?.status === "LIVE" ? (
                      <Chip>Superseded</Chip>
                    ) : (
                      (i === 0 || each.activation?.status === "REJECTED") && (
                        <ActivationChip activation={each.activation} />
                      )
                    )}
                  </Table.Td>
                  <Table.Td style={{ whiteSpace: "nowrap" }}>
                    {each.author} {each.source !== "ui" && <Chip>{each.source}</Chip>}
                    <div style={{ fontSize: "0.75rem", color: "var(--mantine-color-dimmed)" }}>
                      <Timestamp ms={each.at} />
                    </div>
                  </Table.Td>
                  <Table.Td className="wrap">{each.comment}</Table.Td>
                  <Table.Td>
                    {canRead && (
                      <Anchor
                        component="button"
                        type="button"
                        size="sm"
                        aria-label={`Show ${kind.content} of revision ${each.revision}`}
                        onClick={() => setCompared(each.revision)}
                      >
                        Show {kind.content}
                      </Anchor>
                    )}
                  </Table.Td>
                </Table.Tr>
              ))}
          </RowTable>
          <LoadMore query={versions} label="Load older changes" />
          {compared !== null && (
            <section
              className="panel"
              aria-label={`${capital(kind.content)} of revision ${compared}`}
              style={{ marginTop: "1rem" }}
            >
              <h2>Revision {compared}</h2>
              <RevisionValues kind={kind} name={list.name} revision={compared} />
            </section>
          )}
        </>
      )}
    </QueryResult>
  );
}

function RevisionValues({ kind, name, revision }: { kind: CollectionKind; name: string; revision: number }) {
  const diff = useQuery({
    queryKey: keys.collectionDiff(kind.plural, name, revision - 1, revision),
    queryFn: ({ signal }) =>
      get<CollectionDiff>(`${pathOf(kind, name)}/diff?from=${revision - 1}&to=${revision}`, signal),
  });
  return (
    <QueryResult query={diff}>
      {(found) => <DiffTable kind={kind} diff={found} label={`Changed ${kind.content}`} />}
    </QueryResult>
  );
}
