import { expect, test } from "vitest";
import { rule } from "../testing/samples";
import { found, sorted } from "./ruleList";

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

test("every word has to be somewhere in the rule, whatever its case", () => {
  expect(ids(found(ROWS, "MULE fan", null))).toEqual([1]);
  expect(ids(found(ROWS, "laundering", null))).toEqual([3]);
  expect(ids(found(ROWS, "paymentamount", null))).toEqual([1, 2, 3]);
  expect(ids(found(ROWS, "mule velocity", null))).toEqual([]);
  expect(ids(found(ROWS, "", "SHADOW"))).toEqual([2]);
});

test("order by column, equal ones by id", () => {
  expect(ids(sorted(ROWS, "alerts", false))).toEqual([2, 1, 3]);
  expect(ids(sorted(ROWS, "severity", false))).toEqual([2, 1, 3]);
  expect(ids(sorted(ROWS, "updatedAt", false))).toEqual([2, 3, 1]);
  expect(ids(sorted(ROWS, "revision", true))).toEqual([1, 2, 3]);
  expect(ids(sorted(ROWS, "ruleId", true))).toEqual([3, 2, 1]);
});
