import { LineChart } from "@mantine/charts";
import type { ReactElement } from "react";
import type { DotItemDotProps } from "recharts";
import type { Progress } from "../api/types";
import { SERIES_ORDER } from "../components/chartLegend";
import { EmptyState } from "../components/EmptyState";
import { formatNumber, formatTime } from "../format";
import { type ChartPoint, chartSpan, downsample, withGaps } from "./chartPoints";

const MINUTES_WITH_SECONDS = 5;

interface Props {
  progress: Progress;
  minutes: number;
}

/** Charts of latency, throughput and waiting payments, up to the present. */
export function Charts({ progress, minutes }: Props) {
  const { points, gapMs, at } = progress;
  const span = chartSpan(points, minutes, at);
  const latencies = withGaps(downsample(points.filter((point) => point.p99 !== null)), gapMs);
  const throughput = withGaps(downsample(points), gapMs);
  const newest = points.at(-1);
  return (
    <div className="sides">
      <section className="panel" aria-label="Latency">
        <h2>Alert latency (ms)</h2>
        <TimeChart
          label={`Latency in ms: latest p50 ${formatNumber(latencies.at(-1)?.p50)}, p99 ${formatNumber(latencies.at(-1)?.p99)}`}
          emptyText="No transactions in this period"
          {...{ data: latencies, span, minutes }}
          series={[
            { name: "p50", color: "var(--mark)" },
            { name: "p99", color: "var(--mark-second)" },
          ]}
        />
      </section>
      <section className="panel" aria-label="Throughput and waiting payments">
        <h2>Throughput and waiting payments</h2>
        <TimeChart
          label={`Latest throughput ${formatNumber(newest?.rowsPerS)} transactions per second, ${formatNumber(newest?.lag)} waiting payments`}
          emptyText="No batches in this period"
          {...{ data: throughput, span, minutes }}
          series={[
            { name: "rowsPerS", label: "transactions per second", color: "var(--mark)" },
            { name: "lag", label: "waiting payments", color: "var(--mark-second)" },
          ]}
        />
      </section>
    </div>
  );
}

interface TimeChartProps {
  label: string;
  emptyText: string;
  data: ChartPoint[];
  span: [number, number];
  minutes: number;
  series: { name: string; label?: string; color: string }[];
}

function TimeChart({ label, emptyText, data, span, minutes, series }: TimeChartProps) {
  if (data.length === 0) return <EmptyState>{emptyText}</EmptyState>;
  return (
    <div role="img" aria-label={label}>
      <LineChart
        dataKey="time"
        data={data}
        series={series}
        h={200}
        withLegend
        legendProps={SERIES_ORDER}
        curveType="linear"
        connectNulls={false}
        withDots={false}
        lineProps={{ isAnimationActive: false, dot: LoneDot }}
        textColor="var(--mantine-color-dimmed)"
        xAxisProps={{
          type: "number",
          domain: span,
          tickFormatter: (ms: number) => formatTime(ms).slice(-8, minutes <= MINUTES_WITH_SECONDS ? undefined : -3),
          minTickGap: 48,
        }}
        yAxisProps={{ width: 56, tickFormatter: (value: number) => formatNumber(value) }}
        valueFormatter={(value) => formatNumber(value)}
        tooltipProps={{ labelFormatter: (ms) => formatTime(Number(ms)) }}
      />
    </div>
  );
}

/** Draws a dot for a point without neighbours, because no line passes through it. */
function LoneDot({ key, cx, cy, stroke, payload }: DotItemDotProps): ReactElement {
  const point = payload as ChartPoint;
  return point.lone && cx !== undefined && cy !== undefined ? (
    <circle key={key} cx={cx} cy={cy} r={2} fill={stroke} />
  ) : (
    <g key={key} />
  );
}
