import { expect, test } from "vitest";
import { alert, rule, SCHEMA } from "../testing/samples";
import { historyMatters } from "./shortHistory";

test.each<[string, object, boolean, boolean]>([
  ["a complete window", { aggregatorFunctionType: "AVG" }, true, false],
  ["an average", { aggregatorFunctionType: "AVG" }, false, true],
  ["a count above its limit", { aggregatorFunctionType: "COUNT" }, false, false],
  ["a count below its limit", { aggregatorFunctionType: "COUNT", limitOperatorType: "<" }, false, true],
  ["a sum of amounts that are never negative", {}, false, false],
  ["a sum of other numbers", { aggregateFieldName: "payeeId" }, false, true],
  ["a minimum below its limit", { aggregatorFunctionType: "MIN", limitOperatorType: "<=" }, false, false],
  ["a baseline", { baseline: { windowMinutes: 60 } }, false, true],
])("more history could change the result of %s: %#", (_, members, windowComplete, expected) => {
  const seen = alert("a", { windowComplete, violatedRule: { ...rule().document, ...members } });
  expect(historyMatters(seen, SCHEMA.fields)).toBe(expected);
});
