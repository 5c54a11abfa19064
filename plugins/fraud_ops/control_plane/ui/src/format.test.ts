import { expect, test } from "vitest";
import {
  comparisonText,
  formatBytes,
  formatDuration,
  formatKey,
  formatNumber,
  formatPercent,
  ruleFormula,
} from "./format";
import { rule } from "./testing/samples";

test("values for display", () => {
  expect(formatNumber(12_345)).toBe("12,345");
  expect(formatNumber(null)).toBe("–");
  expect(formatPercent(0.333)).toBe("33 %");
  expect([850, 12_300, 240_000, 7_200_000, 864_000_000].map(formatDuration)).toEqual([
    "850 ms",
    "12.3 s",
    "4 min",
    "2 h",
    "10 d",
  ]);
  expect(formatBytes(1_234_567)).toBe("1.2 MB");
  expect(formatKey({ payeeId: 1, beneficiaryId: 2 })).toBe("payeeId 1 · beneficiaryId 2");
  expect(formatKey(null)).toBe("all keys");
});

test("the comparison of an alert", () => {
  const base = { limitOperatorType: ">", limit: 3 };
  expect(comparisonText(base)).toBe("> 3");
  expect(comparisonText({ ...base, baseline: { windowMinutes: 60 } }, { value: "41.5" })).toBe("> 3 x 41.5");
  const deviating = { ...base, baseline: { windowMinutes: 60, deviations: true } };
  expect(comparisonText(deviating, { value: "41.5" })).toBe("> 41.5 + 3 deviations");
  expect(comparisonText({ ...deviating, limitOperatorType: "LESS" }, { value: "41.5" })).toBe(
    "LESS 41.5 - 3 deviations",
  );
});

test("a rule as a formula", () => {
  expect(ruleFormula(rule().document)).toBe("SUM(paymentAmount) > 20 in 20 min per payeeId");
  expect(
    ruleFormula({
      aggregatorFunctionType: "COUNT_DISTINCT",
      unique: ["a"],
      limitOperatorType: ">=",
      limit: 5,
      windowSeconds: 30,
      groupingKeyNames: ["b", "c"],
    }),
  ).toBe("COUNT_DISTINCT(a) >= 5 in 30 s per b, c");
  expect(
    ruleFormula({
      aggregatorFunctionType: "SUM",
      aggregateFieldName: "COUNT_WITH_RESET_FLINK",
      limitOperatorType: ">=",
      limit: 100,
      windowMinutes: 1440,
      groupingKeyNames: ["paymentType"],
    }),
  ).toBe("COUNT_WITH_RESET() >= 100 in 1440 min per paymentType");
  expect(ruleFormula({})).toBe("?() ? ? in ? min per ?");
  expect(ruleFormula({ ...rule().document, groupingKeyNames: [] })).toBe(
    "SUM(paymentAmount) > 20 in 20 min over all payments",
  );
});
