import { Anchor, Menu, Table, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { stringifyExactly, toText } from "../api/exactJson";
import { useRuleNames } from "../api/hooks";
import { API, get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { AuditRow, Audits, AuditState, Change } from "../api/types";
import { ChangeTable } from "../components/ChangeTable";
import { Chip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { ExportButton } from "../components/ExportButton";
import { LoadMore } from "../components/LoadMore";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { Timestamp } from "../components/Timestamp";
import { formatCount, formatNumber } from "../format";
import { changesBetween } from "../rules/changes";
import { AuditFields } from "./AuditFields";
import { actionName, filterOf } from "./auditFilter";

/** The audit log, and the state of the verification of its hash chain. */
export default function AuditPage() {
  usePageTitle("Audit");
  const [params, setParams] = useSearchParams();
  const filter = filterOf(params);
  const audit = useInfiniteQuery({
    queryKey: [...keys.audit, filter],
    queryFn: ({ pageParam, signal }) =>
      get<Audits>(`/audit${queryString({ limit: 100, before: pageParam, ...filter })}`, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const change = (name: string, value: string) =>
    setParams(
      (old) => {
        if (value) old.set(name, value);
        else old.delete(name);
        return old;
      },
      { replace: true },
    );
  const verification = useQuery({
    queryKey: [...keys.audit, "verify"],
    queryFn: ({ signal }) => get<AuditState>("/audit/verify", signal),
    refetchInterval: 10_000,
  });
  return (
    <>
      <PageHeader title="Audit" subtitle="Each row contains the hash of the previous row.">
        <span role="status">{verification.data && <VerifiedRows state={verification.data} />}</span>
        <ExportButton>
          <Menu.Item component="a" href={`${API}/audit/export${queryString(filter)}`} download>
            CSV
          </Menu.Item>
        </ExportButton>
      </PageHeader>
      <AuditFields params={params} change={change} />
      <QueryResult query={audit}>
        {({ pages }) => {
          const rows = pages.flatMap((page) => page.items);
          return rows.length === 0 ? (
            <EmptyState>{params.size === 0 ? "No audit entries" : "No matching audit entries"}</EmptyState>
          ) : (
            <>
              <RowTable label="Audit log" columns={["Row", "Time", "User", "Action", "Change"]}>
                {rows.map((row) => (
                  <Table.Tr key={row.seq}>
                    <Table.Td className="number" title={`Hash ${row.hash}`}>
                      {formatNumber(row.seq)}
                    </Table.Td>
                    <Table.Td style={{ whiteSpace: "nowrap" }}>
                      <Timestamp ms={row.at} withDate />
                    </Table.Td>
                    <Table.Td className="wrap" style={{ minWidth: "6rem" }}>
                      {row.who}
                      {row.program !== null && (
                        <Text size="xs" c="dimmed">
                          program {row.program}
                        </Text>
                      )}
                    </Table.Td>
                    <Table.Td className="wrap" style={{ minWidth: "15rem" }}>
                      <span title={row.action}>{actionName(row.action)}</span>{" "}
                      <span className="code">{row.subject}</span>
                      <AuditRule row={row} />
                      {row.action === "person.certificate" && (
                        <div>
                          <Anchor href={`${API}/erasures/certificates/${row.seq}`} download>
                            Download certificate
                          </Anchor>
                        </div>
                      )}
                    </Table.Td>
                    <Table.Td style={{ minWidth: "14rem" }}>
                      <AuditChanges row={row} />
                    </Table.Td>
                  </Table.Tr>
                ))}
              </RowTable>
              <LoadMore query={audit} label="Load older entries" />
            </>
          );
        }}
      </QueryResult>
    </>
  );
}

/** The state of the verification in the background. */
function VerifiedRows({ state }: { state: AuditState }) {
  const { whole, rows, total, brokenAt, verifiedAt } = state;
  if (verifiedAt === null) return <Chip>Verification starts within a minute</Chip>;
  const found = rows < total ? `${formatNumber(rows)} of ${formatNumber(total)} rows` : `${formatNumber(rows)} rows`;
  return (
    <>
      <Chip tone={whole ? "good" : "bad"}>
        {whole ? `Intact: ${found}` : `Broken at row ${formatNumber(brokenAt)}`}
      </Chip>{" "}
      <Text span size="sm" c="dimmed">
        verified <Timestamp ms={verifiedAt} />
      </Text>
    </>
  );
}

/** The rule, list or map of a row whose subject does not name it, such as an approval. */
function AuditRule({ row: { subject, ruleId, listName, mapName } }: { row: AuditRow }) {
  const names = useRuleNames();
  if (ruleId !== null && subject !== `rule ${ruleId}`) {
    return (
      <>
        :{" "}
        <Anchor component={Link} to={`/rules/${ruleId}`} underline="always">
          rule {ruleId} {names.get(ruleId)}
        </Anchor>
      </>
    );
  }
  const [kind, name] = mapName === null ? (["list", listName] as const) : (["map", mapName] as const);
  if (name === null || subject === `${kind} ${name}`) return null;
  return (
    <>
      :{" "}
      <Anchor component={Link} to={`/${kind}s/${encodeURIComponent(name)}`} underline="always">
        {kind} {name}
      </Anchor>
    </>
  );
}

function AuditChanges({ row }: { row: AuditRow }) {
  const [open, setOpen] = useState(false);
  if (row.before === null && row.after === null) return null;
  const changes = changesBetween(flatten(row.before), flatten(row.after));
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="wrap">{changes.length === 0 ? "no changes" : changesText(changes)}</summary>
      {open && <ChangeTable changes={changes} />}
    </details>
  );
}

const SHOWN_CHANGES = 3;
const SHOWN_CHARS = 32;

/** The first changes in one line: limit 3 → 6. */
function changesText(changes: readonly Change[]): string {
  const shown = changes.slice(0, SHOWN_CHANGES).map(({ field, before, after }) => {
    return before === null ? `${field} ${shortText(after)}` : `${field} ${shortText(before)} → ${shortText(after)}`;
  });
  return [...shown, ...(changes.length > SHOWN_CHANGES ? [`${changes.length - SHOWN_CHANGES} more`] : [])].join(", ");
}

/** A value in a few words: a long text is cut, and of an array only the length is shown. */
function shortText(value: unknown): string {
  if (Array.isArray(value)) return formatCount(value.length, "value");
  const text = typeof value === "object" && value !== null ? stringifyExactly(value) : toText(value);
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS - 1)}…` : text || "–";
}

/** The members of an object, with those of inner objects under dotted names. Any other value has the name `value`. */
function flatten(value: unknown): Record<string, unknown> {
  if (value === null || value === undefined) return {};
  if (typeof value !== "object" || Array.isArray(value)) return { value: toText(value) };
  const members = Object.entries(value as Record<string, unknown>).flatMap(([name, inner]) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner) && !("isLosslessNumber" in inner)
      ? Object.entries(inner as Record<string, unknown>).map(([within, each]) => [`${name}.${within}`, each] as const)
      : [[name, inner] as const],
  );
  return Object.fromEntries(members);
}
