import { expect, test } from "vitest";
import { alert } from "../testing/samples";
import { addAlerts, appendOlder, applyCorrection, applyMark, MAX_ALERTS, mergeAlerts } from "./alertList";

const all = () => true;
const ids = (alerts: readonly { alertId: string }[]) => alerts.map((each) => each.alertId);

test("new alerts come first, each once, and the list is bounded", () => {
  const old = [alert("b", { appendTime: 2 }), alert("a", { appendTime: 1 })];
  expect(ids(mergeAlerts(old, [alert("c", { appendTime: 3 }), alert("b", { appendTime: 2 })]))).toEqual([
    "c",
    "b",
    "a",
  ]);
  const many = Array.from({ length: MAX_ALERTS + 5 }, (_, i) => alert(String(i), { appendTime: i }));
  expect(mergeAlerts(many, [])).toHaveLength(MAX_ALERTS);
  expect(ids(appendOlder(old, [alert("a"), alert("z")]))).toEqual(["b", "a", "z"]);
});

test("alerts beyond the bound are the continuation", () => {
  const alerts = Array.from({ length: MAX_ALERTS }, (_, i) => alert(String(i), { appendTime: MAX_ALERTS - i }));
  const continuation = { next: "far", searchedTo: null, missing: null };
  const one = { alerts: alerts.slice(0, 1), newIds: new Set<string>(), continuation };
  expect(addAlerts(one, [alert("new", { appendTime: MAX_ALERTS + 1 })]).continuation).toBe(continuation);
  const full = addAlerts({ ...one, alerts }, [alert("new", { appendTime: MAX_ALERTS + 1 })]);
  expect(full.alerts).toHaveLength(MAX_ALERTS);
  expect(full.continuation.next).toBe(full.alerts.at(-1)?.position);
});

test("a correction marks its alert in place, or adds a missing alert", () => {
  const event = { alertId: "a", kind: "RETRACTED" as const, time: 5, ruleId: 1, alert: null };
  expect(applyCorrection([alert("a")], event, all)[0]?.correction).toEqual({ kind: "RETRACTED", time: 5 });
  const added = { alertId: "n", kind: "ADDED" as const, time: 5, ruleId: 1, alert: alert("n") };
  expect(ids(applyCorrection([], added, all))).toEqual(["n"]);
  expect(applyCorrection([], added, () => false)).toHaveLength(0);
});

test("a mark changes one alert only", () => {
  const mark = { verdict: "FRAUD" as const, who: "ann", at: 1 };
  expect(applyMark([alert("a"), alert("b")], "b", mark).map((each) => each.mark)).toEqual([null, mark]);
});
