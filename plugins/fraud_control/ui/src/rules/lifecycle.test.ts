import { expect, test } from "vitest";
import type { Me, StateName } from "../api/types";
import { ANALYST } from "../testing/samples";
import { editNeedsApproval, nextRollout, transitionsFor } from "./lifecycle";

const APPROVER: Me = { ...ANALYST, can: [...ANALYST.can, "activate", "pause", "editLive", "delete", "decide"] };
const NEXT: StateName[] = ["SHADOW", "ACTIVE", "PAUSE", "DELETE"];
const steps = (state: StateName, me: Me, nextStates = NEXT, author = ANALYST.user) =>
  transitionsFor({ state, nextStates, author }, me).map(
    ({ to, needsApproval }) => `${needsApproval ? "ask " : ""}${to}`,
  );

test("an analyst makes some transitions and requests the others", () => {
  expect(steps("DRAFT", ANALYST)).toEqual(["SHADOW", "DELETE"]);
  expect(steps("SHADOW", ANALYST)).toEqual(["ask ACTIVE", "DELETE"]);
  expect(steps("ACTIVE", ANALYST)).toEqual(["ask PAUSE", "ask SHADOW", "ask DELETE"]);
  expect(editNeedsApproval("ACTIVE", ANALYST)).toBe(true);
  expect(editNeedsApproval("SHADOW", ANALYST)).toBe(false);
});

test("a draft is deleted by its author or with the permission to delete; other users request it", () => {
  expect(steps("DRAFT", ANALYST, ["DELETE"], "abe")).toEqual(["ask DELETE"]);
  expect(steps("DRAFT", APPROVER, ["DELETE"], "abe")).toEqual(["DELETE"]);
});

test("with four eyes an approver requests an activation and makes the other transitions", () => {
  expect(steps("SHADOW", APPROVER)).toEqual(["ACTIVE", "DELETE"]);
  expect(steps("SHADOW", { ...APPROVER, fourEyes: true })).toEqual(["ask ACTIVE", "DELETE"]);
  expect(steps("ACTIVE", { ...APPROVER, fourEyes: true })).toEqual(["PAUSE", "SHADOW", "DELETE"]);
  expect(editNeedsApproval("ACTIVE", { ...APPROVER, fourEyes: true })).toBe(true);
});

test("only transitions that the server allows are offered", () => {
  expect(steps("ACTIVE", APPROVER, ["PAUSE"])).toEqual(["PAUSE"]);
});

test.each([
  [undefined, null],
  [100, null],
  [1, 5],
  [5, 20],
  ["20", 50],
  [37, 50],
  [99, 100],
])("after a rollout of %j percent comes %j", (rolloutPercent, next) => {
  expect(nextRollout({ document: { ruleId: 1, rolloutPercent } })).toBe(next);
});

test("a viewer has no transitions", () => {
  expect(steps("ACTIVE", { ...ANALYST, can: ["read"] })).toEqual([]);
  expect(steps("DELETE", APPROVER)).toEqual([]);
});
