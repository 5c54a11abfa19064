import type { ProgressPoint } from "../api/types";

const MAX_POINTS = 240;

/** Reduces the points for a chart. The worst point of each run of batches represents the run, so no spike is lost. */
export function downsample(points: readonly ProgressPoint[]): ProgressPoint[] {
  const runLength = Math.ceil(points.length / MAX_POINTS);
  if (runLength <= 1) return [...points];
  const result: ProgressPoint[] = [];
  for (let start = 0; start < points.length; start += runLength) {
    const run = points.slice(start, start + runLength);
    const worst = run.reduce((a, b) => ((b.p99 ?? -1) > (a.p99 ?? -1) ? b : a));
    result.push({ ...worst, lag: maximum(run.map((each) => each.lag)) });
  }
  return result;
}

/** A point of a chart. A break has a time and no values. A lone point has breaks on both sides. */
export interface ChartPoint {
  time: number;
  lone: boolean;
  rowsPerS: number | null;
  lag: number | null;
  p50: number | null;
  p99: number | null;
}

/** Adds a break between two points that are more than `gapMs` apart: the detector evaluated nothing in between. */
export function withGaps(points: readonly ProgressPoint[], gapMs: number): ChartPoint[] {
  const result: ChartPoint[] = [];
  points.forEach((point, i) => {
    const before = points[i - 1];
    const after = points[i + 1];
    const starts = before === undefined || point.time - before.time > gapMs;
    const ends = after === undefined || after.time - point.time > gapMs;
    if (starts && before !== undefined) {
      result.push({ time: before.time + 1, lone: false, rowsPerS: null, lag: null, p50: null, p99: null });
    }
    const { time, rowsPerS, lag, p50, p99 } = point;
    result.push({ time, lone: starts && ends, rowsPerS, lag, p50, p99 });
  });
  return result;
}

/** The time range of the charts, in epoch ms. It ends now, not at the last point. */
export function chartSpan(points: readonly ProgressPoint[], minutes: number, nowMs: number): [number, number] {
  return [nowMs - minutes * 60_000, Math.max(nowMs, points.at(-1)?.time ?? 0)];
}

function maximum(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? Math.max(...known) : null;
}
