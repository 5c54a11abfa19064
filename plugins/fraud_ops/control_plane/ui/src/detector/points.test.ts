import { expect, test } from "vitest";
import { thinned } from "./points";

test("a chart has few points and loses no spike", () => {
  const points = Array.from({ length: 3_000 }, (_, i) => ({
    time: i,
    rowsPerS: 1,
    lag: i === 1_501 ? 900 : null,
    p50: 10,
    p99: i === 777 ? 5_000 : 20,
    batchMs: 5,
  }));
  const few = thinned(points);
  expect(few.length).toBeLessThanOrEqual(240);
  expect(Math.max(...few.map((point) => point.p99 ?? 0))).toBe(5_000);
  expect(Math.max(...few.map((point) => point.lag ?? 0))).toBe(900);
  expect(thinned(points.slice(0, 10))).toHaveLength(10);
});
