import { expect, test } from "vitest";
import type { Me, StateName } from "../api/types";
import { ANALYST } from "../testing/samples";
import { editAsks, stepsFor } from "./lifecycle";

const APPROVER: Me = { ...ANALYST, can: [...ANALYST.can, "activate", "pause", "editLive", "delete", "decide"] };
const NEXT: StateName[] = ["SHADOW", "ACTIVE", "PAUSE", "DELETE"];
const steps = (state: StateName, me: Me, nextStates = NEXT, author = ANALYST.user) =>
  stepsFor({ state, nextStates, author }, me).map(({ to, asks }) => `${asks ? "ask " : ""}${to}`);

test("an analyst does what is theirs, and asks for the rest", () => {
  expect(steps("DRAFT", ANALYST)).toEqual(["SHADOW", "DELETE"]);
  expect(steps("SHADOW", ANALYST)).toEqual(["ask ACTIVE", "DELETE"]);
  expect(steps("ACTIVE", ANALYST)).toEqual(["ask PAUSE", "ask SHADOW", "ask DELETE"]);
  expect(editAsks("ACTIVE", ANALYST)).toBe(true);
  expect(editAsks("SHADOW", ANALYST)).toBe(false);
});

test("a draft is deleted by its author, and by whoever may delete any rule; others ask for it", () => {
  expect(steps("DRAFT", ANALYST, ["DELETE"], "abe")).toEqual(["ask DELETE"]);
  expect(steps("DRAFT", APPROVER, ["DELETE"], "abe")).toEqual(["DELETE"]);
});

test("with four eyes an approver asks for what takes effect, and does the rest", () => {
  expect(steps("SHADOW", APPROVER)).toEqual(["ACTIVE", "DELETE"]);
  expect(steps("SHADOW", { ...APPROVER, fourEyes: true })).toEqual(["ask ACTIVE", "DELETE"]);
  expect(steps("ACTIVE", { ...APPROVER, fourEyes: true })).toEqual(["PAUSE", "SHADOW", "DELETE"]);
  expect(editAsks("ACTIVE", { ...APPROVER, fourEyes: true })).toBe(true);
});

test("nothing is offered that the server would not take", () => {
  expect(steps("ACTIVE", APPROVER, ["PAUSE"])).toEqual(["PAUSE"]);
});

test("a viewer is offered nothing", () => {
  expect(steps("ACTIVE", { ...ANALYST, can: ["read"] })).toEqual([]);
  expect(steps("DELETE", APPROVER)).toEqual([]);
});
