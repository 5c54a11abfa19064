import { expect, test } from "vitest";
import { precisionInterval } from "./precision";

test.each([
  [1, 1, [21, 100]],
  [9, 10, [60, 98]],
  [50, 100, [40, 60]],
  [0, 10, [0, 28]],
])("the interval of %i in %i", (hits, total, percents) => {
  expect(precisionInterval(hits, total).map((share) => Math.round(share * 100))).toEqual(percents);
});
