import { expect, test } from "vitest";
import type { ProgressPoint } from "../api/types";
import { chartSpan, downsample, withGaps } from "./chartPoints";

function point(time: number, members: Partial<ProgressPoint> = {}): ProgressPoint {
  return { time, rowsPerS: 1, lag: null, p50: 10, p99: 20, batchMs: 5, ...members };
}

test("downsampling keeps every spike", () => {
  const points = Array.from({ length: 3_000 }, (_, i) =>
    point(i, { lag: i === 1_501 ? 900 : null, p99: i === 777 ? 5_000 : 20 }),
  );
  const few = downsample(points);
  expect(few.length).toBeLessThanOrEqual(240);
  expect(Math.max(...few.map((each) => each.p99 ?? 0))).toBe(5_000);
  expect(Math.max(...few.map((each) => each.lag ?? 0))).toBe(900);
  expect(downsample(points.slice(0, 10))).toHaveLength(10);
});

test("lines break where the detector evaluated nothing", () => {
  const shown = withGaps([point(0), point(10_000), point(300_000), point(900_000), point(925_000)], 25_000);
  expect(shown.map(({ time, rowsPerS }) => [time, rowsPerS])).toEqual([
    [0, 1],
    [10_000, 1],
    [10_001, null],
    [300_000, 1],
    [300_001, null],
    [900_000, 1],
    [925_000, 1],
  ]);
  expect(shown.filter((each) => each.lone).map((each) => each.time)).toEqual([300_000]);
});

test("the charts end now, not at the last batch", () => {
  expect(chartSpan([point(1_000)], 15, 2_000_000)).toEqual([1_100_000, 2_000_000]);
  expect(chartSpan([point(2_000_500)], 5, 2_000_000)).toEqual([1_700_000, 2_000_500]);
  expect(chartSpan([], 5, 2_000_000)).toEqual([1_700_000, 2_000_000]);
});
