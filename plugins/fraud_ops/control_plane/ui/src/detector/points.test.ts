import { expect, test } from "vitest";
import type { ProgressPoint } from "../api/types";
import { spanOf, thinned, withGaps } from "./points";

function point(time: number, members: Partial<ProgressPoint> = {}): ProgressPoint {
  return { time, rowsPerS: 1, lag: null, p50: 10, p99: 20, batchMs: 5, ...members };
}

test("a chart has few points and loses no spike", () => {
  const points = Array.from({ length: 3_000 }, (_, i) =>
    point(i, { lag: i === 1_501 ? 900 : null, p99: i === 777 ? 5_000 : 20 }),
  );
  const few = thinned(points);
  expect(few.length).toBeLessThanOrEqual(240);
  expect(Math.max(...few.map((each) => each.p99 ?? 0))).toBe(5_000);
  expect(Math.max(...few.map((each) => each.lag ?? 0))).toBe(900);
  expect(thinned(points.slice(0, 10))).toHaveLength(10);
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

test("the charts end now and not at the last batch", () => {
  expect(spanOf([point(1_000)], 15, 2_000_000)).toEqual([1_100_000, 2_000_000]);
  expect(spanOf([point(2_000_500)], 5, 2_000_000)).toEqual([1_700_000, 2_000_500]);
  expect(spanOf([], 5, 2_000_000)).toEqual([1_700_000, 2_000_000]);
});
