import { Anchor, Group, Select, Table, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { openedByPath } from "../cases/caseQueue";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { Diff, Me, RuleDetail, Version, Versions } from "../api/types";
import { ChangeTable } from "../components/ChangeTable";
import { ActivationChip, Chip, StateChip, stateName } from "../components/Chip";
import { LoadMore } from "../components/LoadMore";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { RuleText } from "../components/RuleText";
import { Timestamp } from "../components/Timestamp";
import { contentChanges, sameContent } from "./changes";
import { rollbackNeedsApproval } from "./lifecycle";
import { RuleChangeDialog } from "./RuleChangeDialog";

const PAGE = 50;

/** All revisions of a rule, the differences between two of them, and rollback. */
export function RevisionsPanel({ rule, me }: { rule: RuleDetail; me: Me }) {
  const [params] = useSearchParams();
  const log = params.get("log");
  const versions = useInfiniteQuery({
    queryKey: keys.versions(rule.ruleId),
    queryFn: ({ pageParam, signal }) =>
      get<Versions>(`/rules/${rule.ruleId}/versions${queryString({ limit: PAGE, before: pageParam })}`, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const items = versions.data?.pages.flatMap((page) => page.items) ?? [];
  const fired = items.find((each) => each.logVersion !== null && String(each.logVersion) === log);
  const { hasNextPage, isFetching, isError, fetchNextPage } = versions;
  // The revision that fired can be far back. Load pages until it and the one before it are there.
  const isFound = fired !== undefined && fired !== items.at(-1);
  const isSearching = log !== null && !isFound && hasNextPage && !isFetching && !isError;
  useEffect(() => {
    if (isSearching) void fetchNextPage();
  }, [isSearching, items.length, fetchNextPage]);
  return (
    <QueryResult query={versions}>
      {() => (
        <RevisionTable rule={rule} me={me} items={items} fired={fired}>
          <LoadMore query={versions} label="Load older revisions" />
        </RevisionTable>
      )}
    </QueryResult>
  );
}

interface TableProps {
  rule: RuleDetail;
  me: Me;
  items: readonly Version[];
  fired: Version | undefined;
  /** The content below the table. */
  children: ReactNode;
}

function RevisionTable({ rule, me, items, fired, children }: TableProps) {
  const [chosen, setChosen] = useState<{ from?: number; to?: number }>({});
  const to = chosen.to ?? fired?.revision ?? items[0]?.revision ?? 0;
  const from = chosen.from ?? items[items.findIndex((each) => each.revision === to) + 1]?.revision ?? to;
  const [rollbackTo, setRollbackTo] = useState<Version | null>(null);
  const [rolledBack, setRolledBack] = useState<{ from: number; to: number } | null>(null);
  // The rule can have been paused or moved to shadow before the rollback.
  const flooded =
    rolledBack &&
    items.find(({ revision, state }) => state === "ACTIVE" && revision <= rolledBack.from && revision > rolledBack.to);
  const canRollBack = me.can.includes("request") && rule.state !== "DELETE" && !rule.pendingApproval;
  const choices = items.map((each) => ({ value: String(each.revision), label: `revision ${each.revision}` }));
  return (
    <>
      {flooded && (
        <Text size="sm" mb="sm" role="status">
          Revision {flooded.revision} is rolled back.{" "}
          <Anchor
            component={Link}
            to={openedBy(rule.ruleId, flooded, items[items.indexOf(flooded) - 1])}
            underline="always"
          >
            Close the cases that only revision {flooded.revision} opened
          </Anchor>
        </Text>
      )}
      <RowTable label="Revisions" columns={["Revision", "State", "Rule", "Author", "Comment"]} actions>
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
                <RevisionStatus version={each} newest={i === 0} />
              </Group>
            </Table.Td>
            <Table.Td style={{ minWidth: "14rem" }}>
              <RuleText rule={each.document} withLine />
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
                <Timestamp ms={each.at} />
              </div>
            </Table.Td>
            <Table.Td className="wrap">{each.comment}</Table.Td>
            <Table.Td style={{ whiteSpace: "nowrap" }}>
              <Group gap="xs" wrap="nowrap" justify="flex-end">
                {i < items.length - 1 && (
                  <Anchor component="button" type="button" size="sm" onClick={() => setChosen({ to: each.revision })}>
                    Compare
                  </Anchor>
                )}
                {i > 0 && each.state === "ACTIVE" && (
                  <Anchor component={Link} to={openedBy(rule.ruleId, each, items[i - 1])} size="sm" underline="always">
                    Cases of {each.revision} only
                  </Anchor>
                )}
                {i > 0 && canRollBack && !sameContent(each.document, rule.document) && (
                  <Anchor component="button" type="button" size="sm" onClick={() => setRollbackTo(each)}>
                    Roll back to {each.revision}
                  </Anchor>
                )}
              </Group>
            </Table.Td>
          </Table.Tr>
        ))}
      </RowTable>
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
          <RevisionDiff id={rule.ruleId} from={from} to={to} />
        </section>
      )}
      {rollbackTo && (
        <RollbackDialog
          rule={rule}
          to={rollbackTo}
          needsApproval={rollbackNeedsApproval(rule.state, rollbackTo, me)}
          close={() => setRollbackTo(null)}
          onRestored={(from) => setRolledBack({ from, to: rollbackTo.revision })}
        />
      )}
    </>
  );
}

/** The open cases that only this revision opened: from its activation until that of the next one. */
function openedBy(ruleId: number, revision: Version, next: Version | undefined): string {
  return openedByPath(ruleId, revision.at, next?.activation?.time ?? next?.at ?? revision.at);
}

/** The detector's answer to a revision. Only the newest revision can be live. */
function RevisionStatus({ version, newest }: { version: Version; newest: boolean }) {
  const status = version.activation?.status;
  if (status === "REJECTED") return <Chip tone="bad">Rejected</Chip>;
  if (status === "LIVE")
    return newest ? <ActivationChip activation={version.activation} state={version.state} /> : <Chip>Superseded</Chip>;
  return version.logVersion !== null && newest ? <Chip tone="warn">Pending</Chip> : null;
}

function RevisionDiff({ id, from, to }: { id: number; from: number; to: number }) {
  const diff = useQuery({
    queryKey: keys.diff(id, from, to),
    queryFn: ({ signal }) => get<Diff>(`/rules/${id}/diff?from=${from}&to=${to}`, signal),
    staleTime: Infinity,
  });
  return <QueryResult query={diff}>{({ changes }) => <ChangeTable changes={changes} />}</QueryResult>;
}

function RollbackDialog({
  rule,
  to,
  needsApproval,
  close,
  onRestored,
}: {
  rule: RuleDetail;
  to: Version;
  needsApproval: boolean;
  close: () => void;
  /** Called with the revision that was in force before the rollback. */
  onRestored: (revision: number) => void;
}) {
  return (
    <RuleChangeDialog
      rule={rule}
      needsApproval={needsApproval}
      size="lg"
      title={`Roll back rule ${rule.ruleId} to revision ${to.revision}`}
      label={needsApproval ? "Request rollback" : "Roll back"}
      request={({ ruleId }, comment) => ({
        path: `/rules/${ruleId}/rollback`,
        method: "POST",
        body: { revision: to.revision, comment },
      })}
      successMessage={({ revision }, base) =>
        revision === base.revision
          ? `The rule already has the content of revision ${to.revision}`
          : `Revision ${to.revision} restored as revision ${revision}`
      }
      onChanged={({ revision }) => onRestored(revision)}
      close={close}
    >
      <Text size="sm">
        Saves the content of revision {to.revision} as a new revision. The state stays{" "}
        {stateName(rule.state).toLowerCase()}.
        {to.approved && !needsApproval && rule.state === "ACTIVE" && (
          <> This content was approved before, so it takes effect at once.</>
        )}
      </Text>
      <ChangeTable changes={contentChanges(rule.document, to.document)} />
    </RuleChangeDialog>
  );
}
