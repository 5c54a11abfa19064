import { expect, test } from "vitest";
import { rule } from "../testing/samples";
import { filterRules, sortRules } from "./ruleList";

const ROWS = [
  rule({ ruleId: 1, name: "Mule fan-out", severity: "high", updatedAt: 1, alertsLastHour: [1, 0] }),
  rule({ ruleId: 2, name: "Velocity", severity: "critical", state: "SHADOW", updatedAt: 3, alertsLastHour: [4, 4] }),
  rule({
    ruleId: 3,
    name: "Old one",
    severity: "odd",
    state: "PAUSE",
    owner: "laundering",
    updatedAt: 2,
    alertsLastHour: [0, 0],
  }),
];
const ids = (rows: readonly { ruleId: number }[]) => rows.map((row) => row.ruleId);

test("every word must occur in the rule, in any case", () => {
  expect(ids(filterRules(ROWS, "MULE fan", null))).toEqual([1]);
  expect(ids(filterRules(ROWS, "laundering", null))).toEqual([3]);
  expect(ids(filterRules(ROWS, "paymentamount", null))).toEqual([1, 2, 3]);
  expect(ids(filterRules(ROWS, "mule velocity", null))).toEqual([]);
  expect(ids(filterRules(ROWS, "", "SHADOW"))).toEqual([2]);
});

test("rows are sorted by column, then by id", () => {
  expect(ids(sortRules(ROWS, "alerts", false))).toEqual([2, 1, 3]);
  expect(ids(sortRules(ROWS, "severity", false))).toEqual([2, 1, 3]);
  expect(ids(sortRules(ROWS, "updatedAt", false))).toEqual([2, 3, 1]);
  expect(ids(sortRules(ROWS, "revision", true))).toEqual([1, 2, 3]);
  expect(ids(sortRules(ROWS, "ruleId", true))).toEqual([3, 2, 1]);
  const quality = { ...rule().quality, falseAlertsPerDay: 4.5 };
  expect(ids(sortRules([...ROWS, rule({ ruleId: 4, quality })], "noise", false))).toEqual([4, 1, 2, 3]);
});
