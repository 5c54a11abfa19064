import { Anchor, Button, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo, useState } from "react";
import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import { queryOf, useAlerts } from "../alerts/useAlerts";
import { filterOf } from "../alerts/alertSearch";
import type { Mark } from "../alerts/types";
import { useCan, useMe, useSchema } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Case, CaseDetail, Cases } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { Fact } from "../components/Fact";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { SeverityChip } from "../components/SeverityChip";
import { type Shortcut, useShortcuts } from "../components/shortcuts";
import { ShortcutsHelp } from "../components/ShortcutsHelp";
import { Timestamp } from "../components/Timestamp";
import { fieldLabel } from "../fields";
import { formatNumber } from "../format";
import { AssigneeSelect } from "./AssigneeSelect";
import { CaseAlerts } from "./CaseAlerts";
import { CaseHistory } from "./CaseHistory";
import { NewestPayments, OverviewFacts, useCaseOverview } from "./CaseOverview";
import { caseAddress, caseFilterOf, casePath, caseQuery } from "./caseQueue";
import { CaseRows, Due, StatusChip } from "./CaseRows";
import { CloseDialog } from "./CloseDialog";
import { markShortcuts } from "./markShortcuts";
import { useAssign, useMarkAll, useStatus } from "./useCaseChanges";

const REFRESH_MS = 15_000;

/** One case: what its decision needs, its alerts, comments and marks, and the way to the next case of the queue. */
export default function CasePage() {
  const caseId = Number(useParams()["id"]) || 0;
  const found = useQuery({
    queryKey: keys.caseOne(caseId),
    queryFn: ({ signal }) => get<CaseDetail>(`/cases/${caseId}`, signal),
    refetchInterval: REFRESH_MS,
  });
  return <QueryResult query={found}>{(detail) => <CaseView key={caseId} detail={detail} />}</QueryResult>;
}

function CaseView({ detail }: { detail: CaseDetail }) {
  const fields = useSchema().data?.fields ?? [];
  const title = `${fieldLabel(detail.entityField, fields)} ${detail.entityValue}`;
  usePageTitle(`Case ${detail.caseId}`);
  const can = useCan();
  const me = useMe().data?.user ?? "";
  const [isClosing, setClosing] = useState(false);
  const filter = { ...filterOf(new URLSearchParams()), caseId: detail.caseId, snoozed: true };
  const view = useAlerts(filter, false);
  const overview = useCaseOverview(detail);
  const through = view.alerts[0]?.position;
  const assign = useAssign(detail);
  const setStatus = useStatus(detail);
  const neighbours = useNeighbours(detail.caseId);
  const navigate = useNavigate();
  const works = can("workCases");
  const isOpen = detail.status !== "CLOSED";
  const assignMe = assign.mutate;
  const markAll = useMarkAll();
  const marks = can("mark") && detail.unreviewed > 0 && !markAll.isPending;
  const markCase = (verdict: Mark["verdict"]) =>
    marks && markAll.run({ caseId: detail.caseId, verdict, through }, view.reload);
  const shortcuts = useMemo<Shortcut[]>(
    () => [
      { key: "j", name: "Next case", run: () => neighbours.next && void navigate(neighbours.next) },
      { key: "k", name: "Previous case", run: () => neighbours.previous && void navigate(neighbours.previous) },
      { key: "u", name: "Back to the queue", run: () => void navigate(neighbours.queue) },
      ...(works
        ? [
            { key: "a", name: "Assign to me", run: () => assignMe({ assignee: me }) },
            { key: "c", name: "Close case", run: () => setClosing(isOpen) },
          ]
        : []),
    ],
    [neighbours.next, neighbours.previous, neighbours.queue, navigate, works, assignMe, me, isOpen],
  );
  const allShortcuts = can("mark") ? [...shortcuts, ...markShortcuts("unreviewed alerts", markCase)] : shortcuts;
  useShortcuts(allShortcuts);
  return (
    <>
      <PageHeader title={title} subtitle={<Summary detail={detail} />}>
        {works && isOpen && (
          <>
            <AssigneeSelect detail={detail} />
            {detail.assignee !== me && (
              <Button variant="default" loading={assign.isPending} onClick={() => assign.mutate({ assignee: me })}>
                Assign to me
              </Button>
            )}
            {detail.status === "OPEN" && (
              <Button
                variant="default"
                loading={setStatus.isPending}
                onClick={() => setStatus.mutate({ status: "IN_WORK" })}
              >
                Start work
              </Button>
            )}
            <Button onClick={() => setClosing(true)}>Close case …</Button>
          </>
        )}
        {works && !isOpen && (
          <Button variant="default" loading={setStatus.isPending} onClick={() => setStatus.mutate({ status: "OPEN" })}>
            Reopen
          </Button>
        )}
        <NeighbourLinks {...neighbours} />
        <ShortcutsHelp shortcuts={allShortcuts} />
      </PageHeader>
      {isClosing && <CloseDialog detail={detail} through={through} close={() => setClosing(false)} />}
      <HandedOver detail={detail} />
      <QueryResult query={overview}>
        {(found) => (
          <>
            <Facts detail={detail}>
              <OverviewFacts overview={found} fields={fields} />
            </Facts>
            <NewestPayments detail={detail} overview={found} fields={fields} />
          </>
        )}
      </QueryResult>
      <QueryResult query={queryOf(view)}>
        {(alerts) =>
          alerts.length === 0 ? (
            <EmptyState>The alerts of this case have left the alert index</EmptyState>
          ) : (
            <CaseAlerts detail={detail} view={view} />
          )
        }
      </QueryResult>
      <div className="sides" style={{ marginTop: "1rem" }}>
        <CaseHistory detail={detail} />
        <OtherCases sameEntity={detail.sameEntity} related={overview.data?.related ?? []} />
      </div>
    </>
  );
}

function Summary({ detail }: { detail: CaseDetail }) {
  return (
    <Group gap="xs">
      <span>Case {detail.caseId}</span>
      <StatusChip row={detail} />
      <SeverityChip severity={detail.severity} />
      <span>{detail.assignee === null ? "Unassigned" : `Assigned to ${detail.assignee}`}</span>
    </Group>
  );
}

/** The user who handed the case over, with their note. */
function HandedOver({ detail }: { detail: CaseDetail }) {
  if (detail.handedBy === null || detail.status === "CLOSED") return null;
  const note = detail.events.find(({ action }) => action === "assign")?.comment;
  return (
    <p className="panel wrap" role="note" style={{ margin: "0 0 1rem" }}>
      Handed over by {detail.handedBy}
      {note && `: ${note}`}
    </p>
  );
}

function Facts({ detail, children }: { detail: CaseDetail; children: ReactNode }) {
  return (
    <dl className="facts panel" style={{ marginBottom: "1rem" }}>
      {children}
      {detail.dueAt !== null && (
        <Fact name="Due">
          <Due row={detail} />
        </Fact>
      )}
      <Fact name="Alerts">{formatNumber(detail.alerts)}</Fact>
      <Fact name="Unreviewed">{formatNumber(detail.unreviewed)}</Fact>
      <Fact name="Fraud">{formatNumber(detail.fraud)}</Fact>
      <Fact name="Not fraud">{formatNumber(detail.notFraud)}</Fact>
      {detail.retracted > 0 && <Fact name="Retracted">{formatNumber(detail.retracted)}</Fact>}
      {detail.expiresAt !== null && (
        <Fact name="Expires without work">
          <Timestamp ms={detail.expiresAt} />
        </Fact>
      )}
      <Fact name="First alert">
        <Timestamp ms={detail.firstAlert} />
      </Fact>
      <Fact name="Latest alert">
        <Timestamp ms={detail.lastAlert} />
      </Fact>
      {detail.updatedAt !== null && (
        <Fact name="Last change">
          <Timestamp ms={detail.updatedAt} /> by {detail.updatedBy}
        </Fact>
      )}
    </dl>
  );
}

interface Neighbours {
  /** The paths of the queue and of the cases beside this one; undefined at the end of the queue. */
  queue: string;
  next: string | undefined;
  previous: string | undefined;
  isLoaded: boolean;
}

/** The cases before and after a case in the queue from which the user comes. */
function useNeighbours(caseId: number): Neighbours {
  const [params] = useSearchParams();
  const user = useMe().data?.user ?? "";
  const filter = caseFilterOf(params);
  const address = caseAddress(filter);
  const query = caseQuery(filter, user);
  const next = useNeighbour(`${query}&after=${caseId}&limit=1`);
  const previous = useNeighbour(`${query}&before=${caseId}&limit=1`);
  const path = (id: number | undefined) => (id === undefined ? undefined : casePath(id, address));
  return {
    queue: `/cases${address === "" ? "" : `?${address}`}`,
    next: path(next.data?.items[0]?.caseId),
    previous: path(previous.data?.items[0]?.caseId),
    isLoaded: next.data !== undefined,
  };
}

function useNeighbour(query: string) {
  return useQuery({
    queryKey: keys.caseNeighbour(query),
    queryFn: ({ signal }) => get<Cases>(`/cases?${query}`, signal),
  });
}

function NeighbourLinks({ queue, next, previous, isLoaded }: Neighbours) {
  return (
    <Group gap="xs" component="nav" aria-label="Queue">
      <Anchor component={Link} to={queue} size="sm" underline="always">
        Queue
      </Anchor>
      {previous !== undefined && (
        <Button component={Link} to={previous} variant="default">
          Previous case
        </Button>
      )}
      {next !== undefined && (
        <Button component={Link} to={next} variant="default">
          Next case
        </Button>
      )}
      {isLoaded && next === undefined && (
        <Text size="sm" c="dimmed" span>
          End of the queue
        </Text>
      )}
    </Group>
  );
}

function OtherCases({ sameEntity, related }: { sameEntity: readonly Case[]; related: readonly Case[] }) {
  if (sameEntity.length + related.length === 0) return null;
  return (
    <div style={{ display: "grid", gap: "1rem", alignContent: "start", minWidth: 0 }}>
      {sameEntity.length > 0 && (
        <section className="panel" aria-label="Other cases of this ID">
          <h2>Other cases of this ID</h2>
          <CaseRows label="Other cases of this ID" cases={sameEntity} />
        </section>
      )}
      {related.length > 0 && (
        <section className="panel" aria-label="Cases of other IDs in these payments">
          <h2>Cases of other IDs in these payments</h2>
          <CaseRows label="Cases of other IDs in these payments" cases={related} />
        </section>
      )}
    </div>
  );
}
