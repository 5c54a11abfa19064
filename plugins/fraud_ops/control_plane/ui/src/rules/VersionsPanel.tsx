import { Anchor, Button, Group, Modal, Select, Table, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { useSearchParams } from "react-router";
import { useChange } from "../api/hooks";
import { get, query } from "../api/http";
import { keys } from "../api/keys";
import type { Diff, Me, RuleDetail, Version, Versions } from "../api/types";
import { At } from "../parts/At";
import { Changes } from "../parts/Changes";
import { Chip, LiveMark, StateChip, stateName } from "../parts/Chip";
import { formula } from "../parts/format";
import { Further } from "../parts/Further";
import { Shown, Trouble } from "../parts/Told";
import { editAsks } from "./lifecycle";

const PAGE = 50;

/** Every version, what differs between two of them, and the way back. */
export function VersionsPanel({ rule, me }: { rule: RuleDetail; me: Me }) {
  const [params] = useSearchParams();
  const log = params.get("log");
  const versions = useInfiniteQuery({
    queryKey: keys.versions(rule.ruleId),
    queryFn: ({ pageParam, signal }) =>
      get<Versions>(`/rules/${rule.ruleId}/versions${query({ limit: PAGE, before: pageParam })}`, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const items = versions.data?.pages.flatMap((page) => page.items) ?? [];
  const fired = items.find((each) => each.logVersion !== null && String(each.logVersion) === log);
  const { hasNextPage, isFetching, isError, fetchNextPage } = versions;
  // The version that fired may be far back: the list goes on until it is there, and the one before it.
  const found = fired !== undefined && fired !== items.at(-1);
  const sought = log !== null && !found && hasNextPage && !isFetching && !isError;
  useEffect(() => {
    if (sought) void fetchNextPage();
  }, [sought, items.length, fetchNextPage]);
  return (
    <Shown of={versions}>
      {() => (
        <VersionTable rule={rule} me={me} items={items} fired={fired}>
          <Further of={versions} label="Load older revisions" />
        </VersionTable>
      )}
    </Shown>
  );
}

interface TableProps {
  rule: RuleDetail;
  me: Me;
  items: readonly Version[];
  fired: Version | undefined;
  /** What follows the table. */
  children: ReactNode;
}

function VersionTable({ rule, me, items, fired, children }: TableProps) {
  const [chosen, setChosen] = useState<{ from?: number; to?: number }>({});
  const to = chosen.to ?? fired?.revision ?? items[0]?.revision ?? 0;
  const from = chosen.from ?? items[items.findIndex((each) => each.revision === to) + 1]?.revision ?? to;
  const [back, setBack] = useState<Version | null>(null);
  const mayRollBack = me.can.includes("request") && rule.state !== "DELETE" && !rule.pendingApproval;
  const choices = items.map((each) => ({ value: String(each.revision), label: `revision ${each.revision}` }));
  return (
    <>
      <div className="wide">
        <Table className="rows" aria-label="Revisions">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Revision</Table.Th>
              <Table.Th>State</Table.Th>
              <Table.Th>Rule</Table.Th>
              <Table.Th>Author</Table.Th>
              <Table.Th>Comment</Table.Th>
              <Table.Th>
                <span style={{ position: "absolute", width: 1, height: 1, overflow: "hidden" }}>Actions</span>
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {items.map((each, i) => (
              <Table.Tr key={each.revision} {...(each === fired ? { bg: "var(--warn-soft)" } : {})}>
                <Table.Td className="number" style={{ whiteSpace: "nowrap" }}>
                  {each.revision}
                  {each === fired && (
                    <>
                      {" "}
                      <Chip tone="warn">Fired</Chip>
                    </>
                  )}
                  <div style={{ color: "var(--mantine-color-dimmed)", fontSize: "0.75rem" }}>
                    {each.logVersion === null ? "not in the rule log" : `rule version ${each.logVersion}`}
                  </div>
                </Table.Td>
                <Table.Td>
                  <Group gap={4}>
                    <StateChip state={each.state} />
                    <Acknowledged version={each} newest={i === 0} />
                  </Group>
                </Table.Td>
                <Table.Td className="code" style={{ minWidth: "12rem" }}>
                  {formula(each.document)}
                </Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>
                  <span className="wrap">{each.author}</span>
                  {each.source !== "ui" && (
                    <>
                      {" "}
                      <Chip>{each.source}</Chip>
                    </>
                  )}
                  <div style={{ fontSize: "0.75rem", color: "var(--mantine-color-dimmed)" }}>
                    <At ms={each.at} />
                  </div>
                </Table.Td>
                <Table.Td className="wrap">{each.comment}</Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>
                  <Group gap="xs" wrap="nowrap" justify="flex-end">
                    {i < items.length - 1 && (
                      <Anchor
                        component="button"
                        type="button"
                        size="sm"
                        onClick={() => setChosen({ to: each.revision })}
                      >
                        Compare
                      </Anchor>
                    )}
                    {i > 0 && mayRollBack && (
                      <Anchor component="button" type="button" size="sm" onClick={() => setBack(each)}>
                        Roll back to {each.revision}
                      </Anchor>
                    )}
                  </Group>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      {children}
      {items.length > 1 && (
        <section className="panel" aria-label="Comparison" style={{ marginTop: "1rem" }}>
          <Group gap="xs" align="flex-end">
            <Select
              label="From"
              data={choices}
              value={String(from)}
              allowDeselect={false}
              onChange={(value) => setChosen({ from: Number(value), to })}
              w="9rem"
            />
            <Select
              label="To"
              data={choices}
              value={String(to)}
              allowDeselect={false}
              onChange={(value) => setChosen({ from, to: Number(value) })}
              w="9rem"
            />
          </Group>
          <Compared id={rule.ruleId} from={from} to={to} />
        </section>
      )}
      {back && <RollBack rule={rule} to={back} asks={editAsks(rule.state, me)} close={() => setBack(null)} />}
    </>
  );
}

/** Whether the detector took a version; only the newest can be the one that is live. */
function Acknowledged({ version, newest }: { version: Version; newest: boolean }) {
  const status = version.activation?.status;
  if (status === "REJECTED") return <Chip tone="bad">Rejected</Chip>;
  if (status === "LIVE")
    return newest ? <LiveMark activation={version.activation} state={version.state} /> : <Chip>Superseded</Chip>;
  return version.logVersion !== null && newest ? <Chip tone="warn">Pending</Chip> : null;
}

function Compared({ id, from, to }: { id: number; from: number; to: number }) {
  const diff = useQuery({
    queryKey: keys.diff(id, from, to),
    queryFn: ({ signal }) => get<Diff>(`/rules/${id}/diff?from=${from}&to=${to}`, signal),
    staleTime: Infinity,
  });
  return <Shown of={diff}>{({ changes }) => <Changes changes={changes} />}</Shown>;
}

function RollBack({ rule, to, asks, close }: { rule: RuleDetail; to: Version; asks: boolean; close: () => void }) {
  const [comment, setComment] = useState("");
  // What somebody saves while this is open has not been looked at, and is not rolled over.
  const [seen] = useState(rule.revision);
  const roll = useChange<string, RuleDetail>(
    (why) => ({
      path: `/rules/${rule.ruleId}/rollback`,
      method: "POST",
      body: { revision: to.revision, comment: why },
      revision: seen,
    }),
    {
      said: ({ status, body }) =>
        status === 202
          ? "Requested: another user must approve"
          : `Revision ${to.revision} restored as revision ${body.revision}`,
      affects: [keys.versions(rule.ruleId), keys.approvals, keys.ruleList],
      renews: keys.rule(rule.ruleId),
      quiet: true,
    },
  );
  const name = asks ? "Request rollback" : "Roll back";
  return (
    <Modal opened onClose={close} size="lg" title={`Roll back rule ${rule.ruleId} to revision ${to.revision}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          roll.mutate(comment, { onSuccess: close });
        }}
      >
        <Text size="sm">
          Saves the content of revision {to.revision} as a new revision. The state stays{" "}
          {stateName(rule.state).toLowerCase()}.
        </Text>
        <Compared id={rule.ruleId} from={seen} to={to.revision} />
        <TextInput
          label="Comment"
          data-autofocus
          mt="sm"
          value={comment}
          maxLength={500}
          onChange={(event) => setComment(event.currentTarget.value)}
        />
        {roll.error && <Trouble error={roll.error} />}
        <Group justify="flex-end" mt="md" gap="xs">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" loading={roll.isPending}>
            {name}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
