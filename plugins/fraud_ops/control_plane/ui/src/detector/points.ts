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

function most(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? Math.max(...known) : null;
}
