import { Group, SegmentedControl, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { shown } from "../api/exactJson";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Drift, Liveness, Progress } from "../api/types";
import { At } from "../parts/At";
import { Chip } from "../parts/Chip";
import { bytes, duration, number, share, time, verdictName } from "../parts/format";
import { Head, useTitle } from "../parts/Head";
import { ScrolledTable } from "../parts/ScrolledTable";
import { Nothing, Shown } from "../parts/Told";
import { Charts } from "./Charts";
import { Readers } from "./Readers";

const MINUTES = ["5", "15", "60"];
const POLL_MS = 5_000;

/** The detector: verdict with runbook, figures, charts, late payments, quarantine, and drift. */
export default function DetectorPage() {
  useTitle("Detector");
  const [minutes, setMinutes] = useState("15");
  const progress = useQuery({
    queryKey: [...keys.progress, minutes],
    queryFn: ({ signal }) => get<Progress>(`/progress?minutes=${minutes}`, signal),
    refetchInterval: POLL_MS,
  });
  return (
    <>
      <Head title="Detector">
        <SegmentedControl
          size="xs"
          aria-label="Chart time range"
          value={minutes}
          onChange={setMinutes}
          data={MINUTES.map((value) => ({ value, label: `${value} min` }))}
        />
      </Head>
      <Shown of={progress}>{(data) => <Panel progress={data} minutes={Number(minutes)} />}</Shown>
    </>
  );
}

function Panel({ progress, minutes }: { progress: Progress; minutes: number }) {
  const { status, liveness } = progress;
  const { verdict } = liveness;
  return (
    <div style={{ display: "grid", gap: "1rem" }}>
      <section className="panel" aria-label="Verdict" style={{ borderLeft: `4px solid var(--${verdict.tone})` }}>
        <Group gap="sm" align="baseline">
          <Chip tone={verdict.tone}>{verdictName(liveness)}</Chip>
          <a href={verdict.runbook}>Runbook</a>
        </Group>
        {verdict.reasons.map((reason) => (
          <Text key={reason} size="sm" mt={6} className="wrap">
            {reason}
          </Text>
        ))}
      </section>
      <Figures status={status} liveness={liveness} />
      <Charts progress={progress} minutes={minutes} />
      <Late rows={progress.late} />
      <Quarantine rows={progress.quarantine} />
      <Readers progress={progress} />
      <DriftPanel />
    </div>
  );
}

/** How many payments wait now, and the figures of the last batch. During an outage those are old, and look so. */
function Figures({ status, liveness }: { status: Progress["status"]; liveness: Liveness }) {
  const isOld = liveness.severity !== "NONE";
  return (
    <section className="panel" aria-label="Metrics">
      <p style={{ marginTop: 0 }}>
        Waiting payments: <strong className="number">{number(liveness.waiting)}</strong>
      </p>
      {status && (
        <>
          {isOld && liveness.since !== null && (
            <Text size="sm" c="dimmed" mb={6}>
              Metrics of the last batch, as of {time(liveness.since, liveness.at)}
            </Text>
          )}
          <dl className={isOld ? "facts old" : "facts"}>
            <Fact name="Transactions per second" value={number(status.rowsPerS)} />
            <Fact name="Latency p50" value={status.latencyP50Ms === null ? "–" : duration(status.latencyP50Ms)} />
            <Fact name="Latency p99" value={status.latencyP99Ms === null ? "–" : duration(status.latencyP99Ms)} />
            <Fact name="Batch duration" value={status.batchMs === null ? "–" : duration(status.batchMs)} />
            <Fact name="Last batch" value={`${duration(status.lastBatchAgeMs)} ago`} />
            <Fact name="Rules in force" value={number(status.rulesInForce)} />
            <Fact name="Events in state" value={`${number(status.retainedEvents)} (${bytes(status.retainedBytes)})`} />
            <Fact name="Watermark" value={status.watermark === null ? "–" : time(status.watermark)} />
            {status.recent && (
              <>
                <Fact name="Late (last 5 min)" value={share(status.recent.late, status.recent.rows)} />
                <Fact
                  name="Unreadable (last 5 min)"
                  value={share(status.recent.quarantined, status.recent.rows + status.recent.quarantined)}
                />
              </>
            )}
          </dl>
        </>
      )}
    </section>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Late({ rows }: { rows: Progress["late"] }) {
  return (
    <section className="panel" aria-label="Late payments">
      <h2>Late payments (counted in later windows, never alerted)</h2>
      {rows.length === 0 ? (
        <Nothing>None.</Nothing>
      ) : (
        <ScrolledTable label="Late payments" columns={["Time", "Lateness", "Grouping keys", "Transaction"]}>
          {rows.map((row, i) => (
            <Table.Tr key={i}>
              <Table.Td>
                <At ms={row.time} />
              </Table.Td>
              <Table.Td className="number">{duration(row.latenessMs)}</Table.Td>
              <Table.Td>{row.groupings.map((each) => each.fields.join(" & ")).join("; ")}</Table.Td>
              <Table.Td className="code" style={{ minWidth: "14rem" }}>
                {Object.entries(row.transaction)
                  .map(([name, value]) => `${name} ${shown(value)}`)
                  .join(", ")}
              </Table.Td>
            </Table.Tr>
          ))}
        </ScrolledTable>
      )}
    </section>
  );
}

function Quarantine({ rows }: { rows: Progress["quarantine"] }) {
  return (
    <section className="panel" aria-label="Quarantine">
      <h2>Quarantine: unreadable records</h2>
      {rows.length === 0 ? (
        <Nothing>None.</Nothing>
      ) : (
        <ScrolledTable label="Quarantined records" columns={["Time", "Reason", "Position", "Content"]}>
          {rows.map((row) => (
            <Table.Tr key={`${row.topic} ${row.partition} ${row.offset}`}>
              <Table.Td>
                <At ms={row.time} />
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
        </ScrolledTable>
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
      <Shown of={drift}>
        {(data) => (
          <>
            <Chip tone={data.inStep ? "good" : data.settled ? "bad" : "warn"}>
              {data.inStep ? "In sync" : data.settled ? "Out of sync" : "Publishing a change of all rules"}
            </Chip>{" "}
            <Text span size="sm">
              {data.outboxPending === 0
                ? "All changes are in the rule log."
                : `Changes waiting for the rule log: ${number(data.outboxPending)}. Oldest: ${duration(data.oldestPendingMs ?? 0)}.`}
            </Text>
            {data.behind > 0 && (
              <Text size="sm">
                Rule log records not yet applied: {number(data.behind)}.
                {data.behindSince !== null && (
                  <>
                    {" "}
                    Oldest: <At ms={data.behindSince} />.
                  </>
                )}
              </Text>
            )}
            {data.differences.length > 0 && (
              <ul>
                {data.differences.map(({ ruleId, store, log }) => (
                  <li key={ruleId} className="code">
                    rule {ruleId}: store {store ? shown(store) : "missing"}; rule log {log ? shown(log) : "missing"}
                  </li>
                ))}
              </ul>
            )}
          </>
        )}
      </Shown>
    </section>
  );
}
