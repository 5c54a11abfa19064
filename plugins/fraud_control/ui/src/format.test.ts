import { expect, test } from "vitest";
import ruleLines from "../../../../tests/corpus/rule_lines.json";
import {
  comparisonText,
  formatBytes,
  formatDuration,
  formatKey,
  formatMicroseconds,
  formatNumber,
  formatPercent,
  ruleFormula,
} from "./format";
import { groupDigits, ruleSentence } from "./ruleSentence";
import { rule, SCHEMA } from "./testing/samples";

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
  expect(comparisonText({ ...deviating, limitOperatorType: "<=" }, { value: "41.5" })).toBe("<= 41.5 - 3 deviations");
});

test.each(ruleLines)("the line of the command line: $says", ({ document, says }) => {
  expect(ruleFormula(document)).toBe(says);
});

test.each(ruleLines)("the sentence of the command line: $words", ({ document, words }) => {
  expect(ruleSentence(document, SCHEMA.fields)).toBe(words);
});

test("an unfinished rule has no sentence", () => {
  expect(ruleSentence({ groupingKeyNames: [], limitOperatorType: ">", limit: 1 }, SCHEMA.fields)).toBeNull();
  expect(ruleSentence({}, SCHEMA.fields)).toBeNull();
});

test("a short duration in microseconds", () => {
  expect(formatMicroseconds(44)).toBe("0.04 µs");
  expect(formatMicroseconds(12_346)).toBe("12.35 µs");
});

test("numbers with separators of thousands", () => {
  expect(["1234567.50", "-1000", "999", "n/a"].map(groupDigits)).toEqual(["1,234,567.50", "-1,000", "999", "n/a"]);
});

test("the line of an unfinished rule", () => {
  expect(ruleFormula({})).toBe("?() ? ? in ? min per ?");
  expect(ruleFormula({ ...rule().document, windowMinutes: "x", baseline: { deviations: true } })).toBe(
    "SUM(paymentAmount) > mean(paymentAmount) + 20 deviations of the ? min before in x min per payeeId",
  );
});
