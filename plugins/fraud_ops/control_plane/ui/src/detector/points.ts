import type { ProgressPoint } from "../api/types";

const MOST = 240;

/** Few enough points for a chart; the worst of each run of batches stands for it, so that no spike is lost. */
export function thinned(points: readonly ProgressPoint[]): ProgressPoint[] {
  const run = Math.ceil(points.length / MOST);
  if (run <= 1) return [...points];
  const found: ProgressPoint[] = [];
  for (let start = 0; start < points.length; start += run) {
    const some = points.slice(start, start + run);
    const worst = some.reduce((a, b) => ((b.p99 ?? -1) > (a.p99 ?? -1) ? b : a));
    found.push({ ...worst, lag: most(some.map((each) => each.lag)) });
  }
  return found;
}

/** A point of a chart. A break in the lines has nothing but a time; a lone point has breaks on both sides. */
export interface ChartPoint {
  time: number;
  lone: boolean;
  rowsPerS: number | null;
  lag: number | null;
  p50: number | null;
  p99: number | null;
}

/** The points with a break wherever two of them are further apart than `gapMs`: the detector evaluated nothing there. */
export function withGaps(points: readonly ProgressPoint[], gapMs: number): ChartPoint[] {
  const found: ChartPoint[] = [];
  points.forEach((point, i) => {
    const before = points[i - 1];
    const after = points[i + 1];
    const starts = before === undefined || point.time - before.time > gapMs;
    const ends = after === undefined || after.time - point.time > gapMs;
    if (starts && before !== undefined) {
      found.push({ time: before.time + 1, lone: false, rowsPerS: null, lag: null, p50: null, p99: null });
    }
    const { time, rowsPerS, lag, p50, p99 } = point;
    found.push({ time, lone: starts && ends, rowsPerS, lag, p50, p99 });
  });
  return found;
}

/** The span of the charts, in epoch ms: it ends now, whatever the last point is. */
export function spanOf(points: readonly ProgressPoint[], minutes: number, nowMs: number): [number, number] {
  return [nowMs - minutes * 60_000, Math.max(nowMs, points.at(-1)?.time ?? 0)];
}

function most(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? Math.max(...known) : null;
}
