import { expect, test } from "vitest";
import { alert } from "../testing/samples";
import { type AlertFilter, corrected, KEPT, marked, shownToo, wanted, withNews, withOlder } from "./alertList";

const ALL: AlertFilter = { ruleId: null, key: "", shadow: null, corrections: true, snoozed: false };
const ids = (alerts: readonly { alertId: string }[]) => alerts.map((each) => each.alertId);

test("news goes to the head, each alert once, and the list stays bounded", () => {
  const old = [alert("b", { appendTime: 2 }), alert("a", { appendTime: 1 })];
  expect(ids(withNews(old, [alert("c", { appendTime: 3 }), alert("b", { appendTime: 2 })]))).toEqual(["c", "b", "a"]);
  const many = Array.from({ length: KEPT + 5 }, (_, i) => alert(String(i), { appendTime: i }));
  expect(withNews(many, [])).toHaveLength(KEPT);
  expect(ids(withOlder(old, [alert("a"), alert("z")]))).toEqual(["b", "a", "z"]);
});

test("what new alerts push out is what follows", () => {
  const alerts = Array.from({ length: KEPT }, (_, i) => alert(String(i), { appendTime: KEPT - i }));
  const rest = { next: "far", searchedTo: null, missing: null };
  const one = { alerts: alerts.slice(0, 1), fresh: new Set<string>(), rest };
  expect(shownToo(one, [alert("new", { appendTime: KEPT + 1 })]).rest).toBe(rest);
  const full = shownToo({ ...one, alerts }, [alert("new", { appendTime: KEPT + 1 })]);
  expect(full.alerts).toHaveLength(KEPT);
  expect(full.rest.next).toBe(full.alerts.at(-1)?.position);
});

test("only what the filter wants is shown", () => {
  expect(wanted(alert("a"), ALL)).toBe(true);
  expect(wanted(alert("a"), { ...ALL, ruleId: 2 })).toBe(false);
  expect(wanted(alert("a"), { ...ALL, key: "12" })).toBe(true);
  expect(wanted(alert("a", { key: { card: "AB-1" } }), { ...ALL, key: "b-" })).toBe(true);
  expect(wanted(alert("a"), { ...ALL, key: "3" })).toBe(false);
  expect(wanted(alert("a", { shadow: true }), { ...ALL, shadow: false })).toBe(false);
  expect(wanted(alert("a", { snoozed: true }), ALL)).toBe(false);
  expect(wanted(alert("a", { snoozed: true }), { ...ALL, snoozed: true })).toBe(true);
});

test("a correction is said in place, and one that was missing comes in", () => {
  const event = { alertId: "a", kind: "RETRACTED" as const, time: 5, ruleId: 1, alert: null };
  expect(corrected([alert("a")], event, ALL)[0]?.correction).toEqual({ kind: "RETRACTED", time: 5 });
  const added = { alertId: "n", kind: "ADDED" as const, time: 5, ruleId: 1, alert: alert("n") };
  expect(ids(corrected([], added, ALL))).toEqual(["n"]);
  expect(corrected([], added, { ...ALL, ruleId: 9 })).toHaveLength(0);
});

test("a mark belongs to its alert alone", () => {
  const mark = { verdict: "FRAUD" as const, who: "ann", at: 1 };
  expect(marked([alert("a"), alert("b")], "b", mark).map((each) => each.mark)).toEqual([null, mark]);
});
