import { expect, test } from "vitest";
import type { RuleDocument } from "./api/types";
import { formatMeasure, limitText, valueText } from "./measure";
import { SCHEMA } from "./testing/samples";

const { fields } = SCHEMA;
const sum: RuleDocument = {
  aggregatorFunctionType: "SUM",
  aggregateFieldName: "paymentAmount",
  limitOperatorType: ">",
  limit: 50000,
};
const count: RuleDocument = { aggregatorFunctionType: "COUNT", limitOperatorType: ">=", limit: 3 };
const factor = { ...sum, limit: 3, baseline: { windowMinutes: 60 } };
const deviations = { ...sum, limit: 6, baseline: { windowMinutes: 60, deviations: true } };

test.each([
  ["67091.8", 2, "67,091.80"],
  ["27.718333", 2, "27.72"],
  ["-0.995", 2, "-1.00"],
  ["999999999999999999.994", 2, "999,999,999,999,999,999.99"],
  ["0.004", 2, "0.00"],
  ["12", 0, "12"],
  ["2.50", null, "2.5"],
  ["1E+3", 2, "1E+3"],
])("%s with %s decimals", (text, scale, shown) => {
  expect(formatMeasure(text, { scale })).toBe(shown);
});

test("the value of an alert has a noun or a unit", () => {
  expect(valueText(sum, "67091.88", fields)).toBe("67,091.88 EUR");
  expect(valueText(count, "4", fields)).toBe("4 payments");
  expect(valueText(count, "1", fields)).toBe("1 payment");
  const distinct = { ...count, aggregatorFunctionType: "COUNT_DISTINCT", unique: ["beneficiaryId"] };
  expect(valueText(distinct, "12", fields)).toBe("12 different beneficiaries");
  expect(valueText({ ...sum, aggregateFieldName: "COUNT_FLINK" }, "5000", fields)).toBe("5,000 payments");
});

test("the limit of an alert is an amount of money with the decimals of its currency", () => {
  expect(limitText(sum, null, fields)).toBe("> 50,000.00 EUR");
  expect(limitText(count, null, fields)).toBe(">= 3");
  expect(limitText(factor, { value: "41.5" }, fields)).toBe("> 124.50 EUR (3 x 41.50)");
  expect(limitText({ ...factor, limit: "1.1" }, { value: "3" }, fields)).toBe("> 3.30 EUR (1.1 x 3.00)");
  expect(limitText({ ...sum, limit: "paymentAmount * 2" }, null, fields, "250.5")).toBe(
    "> 250.50 EUR (paymentAmount * 2)",
  );
  expect(limitText(deviations, { value: "27.718333" }, fields)).toBe("> 27.72 EUR + 6 deviations");
});

test("the value of a rule with conditions only is the number of those that hold", () => {
  const rule = { conditions: [{ ruleId: 1 }, { ruleId: 2 }] };
  expect(valueText(rule, "2", [])).toBe("2 conditions");
  expect(limitText(rule, null, [])).toBe("");
});
