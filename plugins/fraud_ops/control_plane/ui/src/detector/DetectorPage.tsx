import { LineChart } from "@mantine/charts";
import { Group, SegmentedControl, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { shown } from "../api/exactJson";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Drift, Progress } from "../api/types";
import { At } from "../parts/At";
import { Chip } from "../parts/Chip";
import { bytes, duration, number, time } from "../parts/format";
import { Head, useTitle } from "../parts/Head";
import { ScrolledTable } from "../parts/ScrolledTable";
import { Nothing, Shown } from "../parts/Told";
import { thinned } from "./points";

const MINUTES = ["5", "15", "60"];
const POLL_MS = 5_000;

/** How the detector is: the verdict and what to do about it, rate, lag, latency, and what it could not take. */
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
          aria-label="Span of the charts"
          value={minutes}
          onChange={setMinutes}
          data={MINUTES.map((value) => ({ value, label: `${value} min` }))}
        />
      </Head>
      <Shown of={progress}>{(data) => <Panel progress={data} />}</Shown>
    </>
  );
}

function Panel({ progress }: { progress: Progress }) {
  const { status, verdict } = progress;
  return (
    <div style={{ display: "grid", gap: "1rem" }}>
      <section
        className="panel"
        aria-label="Verdict"
        style={{ borderLeft: `4px solid var(${verdict.well ? "--good" : "--bad"})` }}
      >
        <Group gap="sm" align="baseline">
          <Chip tone={verdict.well ? "good" : "bad"}>{verdict.name.replaceAll("_", " ")}</Chip>
          <a href={verdict.runbook}>What to do: the runbook</a>
        </Group>
        {verdict.reasons.map((reason) => (
          <Text key={reason} size="sm" mt={6} className="wrap">
            {reason}
          </Text>
        ))}
      </section>
      {status && (
        <dl className="facts panel">
          <Fact name="transactions a second" value={number(status.rowsPerS)} />
          <Fact name="lag" value={status.lag === null ? "–" : number(status.lag)} />
          <Fact name="latency p50" value={status.latencyP50Ms === null ? "–" : duration(status.latencyP50Ms)} />
          <Fact name="latency p99" value={status.latencyP99Ms === null ? "–" : duration(status.latencyP99Ms)} />
          <Fact name="a batch takes" value={status.batchMs === null ? "–" : duration(status.batchMs)} />
          <Fact name="last batch" value={`${duration(status.lastBatchAgeMs)} ago`} />
          <Fact name="rules in force" value={number(status.rulesInForce)} />
          <Fact name="events kept" value={`${number(status.retainedEvents)} (${bytes(status.retainedBytes)})`} />
          <Fact name="watermark" value={status.watermark === null ? "–" : time(status.watermark)} />
        </dl>
      )}
      <div className="sides">
        <Latency points={progress.points} />
        <Rate points={progress.points} />
      </div>
      <Late rows={progress.late} />
      <Quarantine rows={progress.quarantine} />
      <DriftPanel />
    </div>
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

const CLOSE_MS = 300_000;

/** The axis of time: minutes, and seconds too where minutes would repeat. */
function timeAxis(points: Progress["points"]) {
  const close = (points.at(-1)?.time ?? 0) - (points[0]?.time ?? 0) < CLOSE_MS;
  return {
    type: "number",
    domain: ["dataMin", "dataMax"],
    tickFormatter: (ms: number) => time(ms).slice(-8, close ? undefined : -3),
    minTickGap: 48,
  } as const;
}

const AXES = {
  dataKey: "time",
  withDots: false,
  h: 200,
  connectNulls: true,
  textColor: "var(--mantine-color-dimmed)",
  lineProps: { isAnimationActive: false },
} as const;

function Latency({ points }: { points: Progress["points"] }) {
  const data = thinned(points.filter((point) => point.p99 !== null));
  return (
    <section className="panel" aria-label="Latency">
      <h2>From append to readable alert, ms</h2>
      {data.length === 0 ? (
        <Nothing>No batch had a transaction in this time.</Nothing>
      ) : (
        <div
          role="img"
          aria-label={`Latency in ms: newest p50 ${data.at(-1)?.p50 ?? "unknown"}, p99 ${data.at(-1)?.p99 ?? "unknown"}`}
        >
          <LineChart
            {...AXES}
            xAxisProps={timeAxis(data)}
            data={data}
            withLegend
            series={[
              { name: "p50", color: "var(--mark)" },
              { name: "p99", color: "var(--mark-second)" },
            ]}
            yAxisProps={{ width: 48 }}
            tooltipProps={{ labelFormatter: (ms) => time(Number(ms)) }}
          />
        </div>
      )}
    </section>
  );
}

function Rate({ points }: { points: Progress["points"] }) {
  const data = thinned(points);
  return (
    <section className="panel" aria-label="Rate and lag">
      <h2>Transactions a second, and how many wait</h2>
      {data.length === 0 ? (
        <Nothing>No batch in this time.</Nothing>
      ) : (
        <div
          role="img"
          aria-label={`Newest rate ${data.at(-1)?.rowsPerS ?? "unknown"} a second, lag ${data.at(-1)?.lag ?? "unknown"}`}
        >
          <LineChart
            {...AXES}
            xAxisProps={timeAxis(data)}
            data={data}
            withLegend
            series={[
              { name: "rowsPerS", label: "a second", color: "var(--mark)" },
              { name: "lag", label: "waiting", color: "var(--mark-second)" },
            ]}
            yAxisProps={{ width: 48 }}
            tooltipProps={{ labelFormatter: (ms) => time(Number(ms)) }}
          />
        </div>
      )}
    </section>
  );
}

function Late({ rows }: { rows: Progress["late"] }) {
  return (
    <section className="panel" aria-label="Late transactions">
      <h2>Late: kept for later windows, not evaluated by themselves</h2>
      {rows.length === 0 ? (
        <Nothing>None.</Nothing>
      ) : (
        <ScrolledTable label="Late transactions" columns={["When", "How late", "For", "Transaction"]}>
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
      <h2>Quarantine: records that are no transactions</h2>
      {rows.length === 0 ? (
        <Nothing>None.</Nothing>
      ) : (
        <ScrolledTable label="Quarantined records" columns={["When", "Why", "Where", "How it begins"]}>
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
              {data.inStep ? "In step" : data.settled ? "They differ" : "A change of all rules is on its way"}
            </Chip>{" "}
            <Text span size="sm">
              {data.outboxPending === 0
                ? "Every change is in the rule log."
                : `${data.outboxPending} changes wait for the rule log, the oldest for ${duration(data.oldestPendingMs ?? 0)}.`}
            </Text>
            {data.differences.length > 0 && (
              <ul>
                {data.differences.map(({ ruleId, store, log }) => (
                  <li key={ruleId} className="code">
                    rule {ruleId}: here {store ? shown(store) : "not there"}; in the log{" "}
                    {log ? shown(log) : "not there"}
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
