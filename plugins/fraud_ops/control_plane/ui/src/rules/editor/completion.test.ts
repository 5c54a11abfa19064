import { expect, test } from "vitest";
import { SCHEMA } from "../../testing/samples";
import { suggestions } from "./completion";

const labels = (form: "yaml" | "json" | "line", before: string) =>
  suggestions(form, before, SCHEMA).map((offer) => offer.label);

test.each([
  ["yaml", "ruleId: 1\n"],
  ["json", '{\n  "'],
] as const)("members at the beginning of a line of %s", (form, before) => {
  expect(labels(form, before)).toEqual(SCHEMA.members);
});

test.each([
  ["yaml", "ruleId: 1\nbaseline:\n  "],
  ["yaml", "baseline:\n  windowMinutes: 60\n  min"],
  ["json", '{"limit": 3,\n"baseline": {\n"windowMinutes": 60,\n"'],
] as const)("members of the baseline in %s after %j", (form, before) => {
  expect(labels(form, before)).toContain("minCount");
  expect(labels(form, before)).not.toContain("ruleId");
});

test.each([
  ["yaml", "baseline:\n  windowMinutes: 60\n"],
  ["json", '{"baseline": {"windowMinutes": 60},\n"'],
] as const)("members of the rule after its baseline in %s", (form, before) => {
  expect(labels(form, before)).toEqual(SCHEMA.members);
});

test.each([
  ["yaml", "groupingKeyNames: ["],
  ["yaml", "groupingKeyNames:\n  - "],
  ["yaml", "groupingKeyNames:\n  - payeeId\n  - "],
  ["yaml", "aggregateFieldName: "],
  ["json", '{"groupingKeyNames": ["'],
  ["line", "1,(active),("],
  ["line", "1,(active),(payeeId&"],
] as const)("fields of the schema, aliases too, in %s after %j", (form, before) => {
  expect(labels(form, before)).toContain("paymentAmount");
  expect(labels(form, before)).toContain("payerId");
  expect(labels(form, before)).not.toContain("limit");
});

test("other completions", () => {
  expect(labels("yaml", "aggregatorFunctionType: ")).toEqual(SCHEMA.aggregators);
  expect(labels("yaml", "limitOperatorType: ")).toEqual(SCHEMA.operators);
  expect(labels("yaml", "filter: paymentType = 'CSH' ")).toEqual(
    expect.arrayContaining(["and", "is null", "paymentAmount"]),
  );
  expect(labels("line", "1,(")).toEqual(SCHEMA.states);
  expect(labels("line", "1,(active),(payeeId),,(paymentAmount),(")).toEqual(SCHEMA.aggregators);
  expect(labels("yaml", "limit: ")).toEqual([]);
});
