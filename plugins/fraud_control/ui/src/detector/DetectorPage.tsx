import { Group, SegmentedControl, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { toText } from "../api/exactJson";
import { useSchema } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Drift, Liveness, Progress } from "../api/types";
import { airflowPath } from "../basePath";
import { Chip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { Fact } from "../components/Fact";
import { FieldValue } from "../components/FieldValue";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { ScrollableTable } from "../components/ScrollableTable";
import { Timestamp } from "../components/Timestamp";
import { fieldLabel } from "../fields";
import {
  formatBytes,
  formatDuration,
  formatMicroseconds,
  formatNumber,
  formatShare,
  formatTime,
  verdictText,
} from "../format";
import { useLivenessQuery, useSilence } from "../outage/useLiveness";
import { VerdictChip } from "../outage/VerdictChip";
import { ageMs, useNow } from "../useNow";
import { AlarmsPanel } from "./AlarmsPanel";
import { Charts } from "./Charts";
import { TopicConsumers } from "./TopicConsumers";

const MINUTES = ["5", "15", "60"];
const DEFAULT_MINUTES = "15";
const POLL_MS = 5_000;

/** The detector: verdict with runbook, recent alarms, metrics, charts, late payments, quarantine and drift. */
export default function DetectorPage() {
  usePageTitle("Detector");
  const [params, setParams] = useSearchParams();
  const wanted = params.get("minutes") ?? "";
  const minutes = MINUTES.includes(wanted) ? wanted : DEFAULT_MINUTES;
  const liveness = useLivenessQuery();
  const progress = useQuery({
    queryKey: [...keys.progress, minutes],
    queryFn: ({ signal }) => get<Progress>(`/progress?minutes=${minutes}`, signal),
    refetchInterval: POLL_MS,
  });
  return (
    <>
      <PageHeader title="Detector">
        <SegmentedControl
          size="xs"
          aria-label="Chart time range"
          value={minutes}
          onChange={(value) => setParams(value === DEFAULT_MINUTES ? {} : { minutes: value }, { replace: true })}
          data={MINUTES.map((value) => ({ value, label: `${value} min` }))}
        />
      </PageHeader>
      <div style={{ display: "grid", gap: "1rem" }}>
        <QueryResult query={liveness}>{(data) => <VerdictPanel liveness={data} />}</QueryResult>
        <AlarmsPanel />
        <QueryResult query={progress}>
          {(data) => <DetectorSections progress={data} minutes={Number(minutes)} />}
        </QueryResult>
      </div>
    </>
  );
}

/** The verdict with its reasons. Ages in the reasons count up to the time of the verdict. */
function VerdictPanel({ liveness }: { liveness: Liveness }) {
  const { verdict } = liveness;
  const tone = useSilence() ? "warn" : verdict.tone;
  return (
    <section className="panel" aria-label="Verdict" style={{ borderLeft: `4px solid var(--${tone})` }}>
      <Group gap="sm" align="baseline">
        <VerdictChip liveness={liveness} />
        <VerdictSince liveness={liveness} />
        <Text size="sm" c="dimmed" span>
          as of <Timestamp ms={liveness.at} />
        </Text>
        <a href={airflowPath(verdict.runbook)}>Runbook</a>
      </Group>
      {verdict.reasons.map((reason) => (
        <Text key={reason} size="sm" mt={6} className="wrap">
          {reason}
        </Text>
      ))}
    </section>
  );
}

function DetectorSections({ progress, minutes }: { progress: Progress; minutes: number }) {
  return (
    <>
      <Metrics status={progress.status} />
      <Charts progress={progress} minutes={minutes} />
      <LatePayments rows={progress.late} />
      <Quarantine rows={progress.quarantine} />
      <TopicConsumers progress={progress} />
      <DriftPanel />
    </>
  );
}

/** The start time of the verdict, as the supervisor recorded it. The supervisor does not know DELAYED. */
function VerdictSince({ liveness }: { liveness: Liveness }) {
  const { since, name } = liveness.verdict;
  if (since === null || verdictText(liveness) !== name.replaceAll("_", " ")) return null;
  return (
    <Text size="sm" span>
      since <Timestamp ms={since} />
    </Text>
  );
}

/** How batches are evaluated, since when, and why. */
function modeText({ large, since }: { large: boolean; since: number }): string {
  const why = large ? "large (4,000 payments or more), with many tasks" : "small, with one evaluator";
  return `${why}, since ${formatTime(since)}`;
}

/** The waiting payments now, and the metrics of the last batch. During an outage the metrics are dimmed. */
function Metrics({ status }: { status: Progress["status"] }) {
  const { data: liveness, dataUpdatedAt } = useLivenessQuery();
  const now = useNow();
  if (!liveness) return null;
  const isStale = liveness.severity !== "NONE";
  return (
    <section className="panel" aria-label="Metrics">
      <p style={{ marginTop: 0 }}>
        Waiting payments: <strong className="number">{formatNumber(liveness.waiting)}</strong>
      </p>
      {status && (
        <>
          {isStale && liveness.since !== null && (
            <Text size="sm" c="dimmed" mb={6}>
              Metrics of the last batch, as of {formatTime(liveness.since, liveness.at)}
            </Text>
          )}
          <dl className={isStale ? "facts old" : "facts"}>
            <Fact name="Transactions per second">{formatNumber(status.rowsPerS)}</Fact>
            <Fact name="Latency p50">{status.latencyP50Ms === null ? "–" : formatDuration(status.latencyP50Ms)}</Fact>
            <Fact name="Latency p99">{status.latencyP99Ms === null ? "–" : formatDuration(status.latencyP99Ms)}</Fact>
            <Fact name="Batch duration">{status.batchMs === null ? "–" : formatDuration(status.batchMs)}</Fact>
            {status.mode && <Fact name="Batches">{modeText(status.mode)}</Fact>}
            {liveness.since !== null && (
              <Fact name="Last batch">{`${formatDuration(ageMs(liveness.since, liveness.at, dataUpdatedAt, now))} ago`}</Fact>
            )}
            <Fact name="Rules in force">{formatNumber(status.rulesInForce)}</Fact>
            {status.cpuNs !== null && (
              <Fact name="CPU time of rules per payment (estimate)">{formatMicroseconds(status.cpuNs)}</Fact>
            )}
            <Fact name="Events in state">{`${formatNumber(status.retainedEvents)} (${formatBytes(status.retainedBytes)})`}</Fact>
            <Fact name="Watermark">{status.watermark === null ? "–" : formatTime(status.watermark)}</Fact>
            {status.viewsSinceStart && (
              <Fact name="View rebuilds / catch-ups (since start)">
                {`${formatNumber(status.viewsSinceStart.rebuilds)} / ${formatNumber(status.viewsSinceStart.catchUps)}`}
              </Fact>
            )}
            {status.sinceStart && (
              <>
                <Fact name="Duplicates (since start)">
                  {`${formatNumber(status.sinceStart.duplicates)} (${formatNumber(status.sinceStart.conflictingDuplicates)} with other content)`}
                </Fact>
                <Fact name="Null grouping fields (since start)">{formatNumber(status.sinceStart.nullKeys)}</Fact>
              </>
            )}
            {status.recent && (
              <>
                <Fact name="Late (last 5 min)">{formatShare(status.recent.late, status.recent.rows)}</Fact>
                <Fact name="Unreadable (last 5 min)">
                  {formatShare(status.recent.quarantined, status.recent.rows + status.recent.quarantined)}
                </Fact>
              </>
            )}
          </dl>
        </>
      )}
    </section>
  );
}

function LatePayments({ rows }: { rows: Progress["late"] }) {
  const fields = useSchema().data?.fields ?? [];
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row.transaction)))];
  const titles = ["Time", "Lateness", "Late for", ...columns.map((name) => fieldLabel(name, fields))];
  return (
    <section className="panel" aria-label="Late payments">
      <h2>Late payments (counted in later windows, never alerted)</h2>
      {rows.length === 0 ? (
        <EmptyState>No late payments</EmptyState>
      ) : (
        <ScrollableTable label="Late transactions" columns={titles}>
          {rows.map((row, i) => (
            <Table.Tr key={i}>
              <Table.Td>
                <Timestamp ms={row.time} />
              </Table.Td>
              <Table.Td className="number">{formatDuration(row.latenessMs)}</Table.Td>
              <Table.Td>
                {row.groupings
                  .map((each) => each.fields.map((name) => fieldLabel(name, fields)).join(" & "))
                  .join("; ")}
              </Table.Td>
              {columns.map((name) => (
                <Table.Td key={name} className="number">
                  <FieldValue name={name} value={row.transaction[name]} fields={fields} />
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </ScrollableTable>
      )}
    </section>
  );
}

function Quarantine({ rows }: { rows: Progress["quarantine"] }) {
  return (
    <section className="panel" aria-label="Quarantine">
      <h2>Quarantine: unreadable records</h2>
      {rows.length === 0 ? (
        <EmptyState>No unreadable records</EmptyState>
      ) : (
        <ScrollableTable label="Quarantined records" columns={["Time", "Reason", "Position", "Content"]}>
          {rows.map((row) => (
            <Table.Tr key={`${row.topic} ${row.partition} ${row.offset}`}>
              <Table.Td>
                <Timestamp ms={row.time} />
              </Table.Td>
              <Table.Td style={{ minWidth: "12rem" }} className="wrap">
                <strong>{row.reason}</strong>
                {row.detail && `: ${row.detail}`}
              </Table.Td>
              <Table.Td className="number" style={{ whiteSpace: "nowrap" }}>
                {row.topic} {row.partition}:{row.offset}
              </Table.Td>
              <Table.Td className="code" style={{ minWidth: "14rem" }}>
                {row.text}
              </Table.Td>
            </Table.Tr>
          ))}
        </ScrollableTable>
      )}
    </section>
  );
}

function DriftPanel() {
  const drift = useQuery({
    queryKey: keys.drift,
    queryFn: ({ signal }) => get<Drift>("/drift", signal),
    refetchInterval: 15_000,
  });
  return (
    <section className="panel" aria-label="Store and rule log">
      <h2>Store and rule log</h2>
      <QueryResult query={drift}>
        {({ listDifferences, mapDifferences, ...data }) => {
          const collections = [
            ...listDifferences.map(({ listName, ...sides }) => ({ name: `list ${listName}`, ...sides })),
            ...mapDifferences.map(({ mapName, ...sides }) => ({ name: `map ${mapName}`, ...sides })),
          ];
          return (
            <>
              <Chip tone={data.inStep ? "good" : data.settled ? "bad" : "warn"}>
                {data.inStep ? "In sync" : data.settled ? "Out of sync" : "Publishing a change of all rules"}
              </Chip>{" "}
              <Text span size="sm">
                {data.outboxPending === 0
                  ? "All changes are in the rule log."
                  : `Changes waiting for the rule log: ${formatNumber(data.outboxPending)}. Oldest: ${formatDuration(data.oldestPendingMs ?? 0)}.`}
              </Text>
              {data.behind > 0 && (
                <Text size="sm">
                  Rule log records not yet applied: {formatNumber(data.behind)}.
                  {data.behindSince !== null && (
                    <>
                      {" "}
                      Oldest: <Timestamp ms={data.behindSince} />.
                    </>
                  )}
                </Text>
              )}
              {data.differences.length + collections.length > 0 && (
                <ul>
                  {data.differences.map(({ ruleId, store, log }) => (
                    <li key={ruleId} className="code">
                      rule {ruleId}: store {store ? toText(store) : "missing"}; rule log {log ? toText(log) : "missing"}
                    </li>
                  ))}
                  {collections.map(({ name, store, log }) => (
                    <li key={name} className="code">
                      {name}: store {store ? toText(store) : "missing"}; rule log {log ? toText(log) : "missing"}
                    </li>
                  ))}
                </ul>
              )}
            </>
          );
        }}
      </QueryResult>
    </section>
  );
}
