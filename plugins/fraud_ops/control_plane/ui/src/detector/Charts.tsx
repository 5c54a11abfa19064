import { LineChart } from "@mantine/charts";
import type { ReactElement } from "react";
import type { DotItemDotProps } from "recharts";
import type { Progress } from "../api/types";
import { number, time } from "../parts/format";
import { Nothing } from "../parts/Told";
import { type ChartPoint, spanOf, thinned, withGaps } from "./points";

const MINUTES_WITH_SECONDS = 5;

interface Props {
  progress: Progress;
  minutes: number;
}

/** Latency, and rate and backlog, up to the present. */
export function Charts({ progress, minutes }: Props) {
  const { points, gapMs, liveness } = progress;
  const span = spanOf(points, minutes, liveness.at);
  const timed = withGaps(thinned(points.filter((point) => point.p99 !== null)), gapMs);
  const all = withGaps(thinned(points), gapMs);
  const newest = points.at(-1);
  return (
    <div className="sides">
      <section className="panel" aria-label="Latency">
        <h2>Alert latency (ms)</h2>
        <Lines
          label={`Latency in ms: latest p50 ${number(timed.at(-1)?.p50)}, p99 ${number(timed.at(-1)?.p99)}`}
          nothing="No transactions in this period"
          {...{ data: timed, span, minutes }}
          series={[
            { name: "p50", color: "var(--mark)" },
            { name: "p99", color: "var(--mark-second)" },
          ]}
        />
      </section>
      <section className="panel" aria-label="Throughput and waiting payments">
        <h2>Throughput and waiting payments</h2>
        <Lines
          label={`Latest throughput ${number(newest?.rowsPerS)} transactions per second, ${number(newest?.lag)} waiting payments`}
          nothing="No batches in this period"
          {...{ data: all, span, minutes }}
          series={[
            { name: "rowsPerS", label: "transactions per second", color: "var(--mark)" },
            { name: "lag", label: "waiting payments", color: "var(--mark-second)" },
          ]}
        />
      </section>
    </div>
  );
}

interface LinesProps {
  label: string;
  nothing: string;
  data: ChartPoint[];
  span: [number, number];
  minutes: number;
  series: { name: string; label?: string; color: string }[];
}

function Lines({ label, nothing, data, span, minutes, series }: LinesProps) {
  if (data.length === 0) return <Nothing>{nothing}</Nothing>;
  return (
    <div role="img" aria-label={label}>
      <LineChart
        dataKey="time"
        data={data}
        series={series}
        h={200}
        withLegend
        curveType="linear"
        connectNulls={false}
        withDots={false}
        lineProps={{ isAnimationActive: false, dot: Lone }}
        textColor="var(--mantine-color-dimmed)"
        xAxisProps={{
          type: "number",
          domain: span,
          tickFormatter: (ms: number) => time(ms).slice(-8, minutes <= MINUTES_WITH_SECONDS ? undefined : -3),
          minTickGap: 48,
        }}
        yAxisProps={{ width: 48 }}
        tooltipProps={{ labelFormatter: (ms) => time(Number(ms)) }}
      />
    </div>
  );
}

/** A point without neighbours has no line, so it is drawn itself. */
function Lone({ key, cx, cy, stroke, payload }: DotItemDotProps): ReactElement {
  const point = payload as ChartPoint;
  return point.lone && cx !== undefined && cy !== undefined ? (
    <circle key={key} cx={cx} cy={cy} r={2} fill={stroke} />
  ) : (
    <g key={key} />
  );
}
