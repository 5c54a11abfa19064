import { Button, Table, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { shown, stringifyExactly } from "../api/exactJson";
import { useChange } from "../api/hooks";
import { get, query } from "../api/http";
import { keys } from "../api/keys";
import type { Audits, AuditRow, AuditVerdict } from "../api/types";
import { At } from "../parts/At";
import { Changes } from "../parts/Changes";
import { Chip } from "../parts/Chip";
import { number } from "../parts/format";
import { Further } from "../parts/Further";
import { Head, useTitle } from "../parts/Head";
import { Nothing, Shown } from "../parts/Told";
import { changesBetween } from "../rules/changes";

/** Everything that was done, by whom, and whether the record of it is whole. */
export default function AuditPage() {
  useTitle("Audit");
  const [params, setParams] = useSearchParams();
  const [rule] = useDebouncedValue(params.get("rule") ?? "", 250);
  const audit = useInfiniteQuery({
    queryKey: [...keys.audit, rule],
    queryFn: ({ pageParam, signal }) =>
      get<Audits>(
        `/audit${query({ limit: 100, before: pageParam, ruleId: /^\d+$/u.test(rule) ? rule : null })}`,
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const verify = useChange<null, AuditVerdict>(() => ({ path: "/audit/verify" }));
  const verdict = verify.data?.body;
  return (
    <>
      <Head title="Audit" about="Each row contains the hash of the previous row.">
        <span role="status">
          {verdict && (
            <Chip tone={verdict.whole ? "good" : "bad"}>
              {verdict.whole ? `Intact: ${number(verdict.rows)} rows` : `Broken at row ${number(verdict.brokenAt)}`}
            </Chip>
          )}
        </span>
        <Button variant="default" loading={verify.isPending} onClick={() => verify.mutate(null)}>
          Verify hash chain
        </Button>
      </Head>
      <TextInput
        type="search"
        inputMode="numeric"
        aria-label="Filter by rule ID"
        placeholder="Filter by rule ID"
        value={params.get("rule") ?? ""}
        onChange={(event) =>
          setParams(event.currentTarget.value ? { rule: event.currentTarget.value } : {}, { replace: true })
        }
        mb="sm"
        maw="12rem"
      />
      <Shown of={audit}>
        {({ pages }) => {
          const rows = pages.flatMap((page) => page.items);
          return rows.length === 0 ? (
            <Nothing>No audit entries</Nothing>
          ) : (
            <>
              <div className="wide">
                <Table className="rows" aria-label="Audit log">
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>Row</Table.Th>
                      <Table.Th>Time</Table.Th>
                      <Table.Th>User</Table.Th>
                      <Table.Th>Action</Table.Th>
                      <Table.Th>Change</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {rows.map((row) => (
                      <Table.Tr key={row.seq}>
                        <Table.Td className="number" title={`Hash ${row.hash}`}>
                          {row.seq}
                        </Table.Td>
                        <Table.Td style={{ whiteSpace: "nowrap" }}>
                          <At ms={row.at} />
                        </Table.Td>
                        <Table.Td className="wrap" style={{ minWidth: "6rem" }}>
                          {row.who}
                        </Table.Td>
                        <Table.Td className="wrap" style={{ minWidth: "15rem" }}>
                          {row.action} <span className="code">{row.subject}</span>
                        </Table.Td>
                        <Table.Td style={{ minWidth: "14rem" }}>
                          <What row={row} />
                        </Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </div>
              <Further of={audit} label="Load older entries" />
            </>
          );
        }}
      </Shown>
    </>
  );
}

function What({ row }: { row: AuditRow }) {
  const [open, setOpen] = useState(false);
  if (row.before === null && row.after === null) return null;
  const changes = changesBetween(flat(row.before), flat(row.after));
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="wrap">
        {changes.length === 0 ? "no changes" : changes.map((change) => change.field).join(", ")}
      </summary>
      {open && <Changes changes={changes} />}
    </details>
  );
}

/** An object's members, those of its inner objects by a dotted name; another value under the name `value`. */
function flat(value: unknown): Record<string, unknown> {
  if (value === null || value === undefined) return {};
  if (typeof value !== "object" || Array.isArray(value)) return { value: shown(value) };
  const members = Object.entries(value as Record<string, unknown>).flatMap(([name, inner]) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner) && !("isLosslessNumber" in inner)
      ? Object.entries(inner as Record<string, unknown>).map(([within, each]) => [`${name}.${within}`, each] as const)
      : [[name, inner] as const],
  );
  return Object.fromEntries(
    members.map(([name, each]) => [name, typeof each === "object" ? stringifyExactly(each) : each]),
  );
}
