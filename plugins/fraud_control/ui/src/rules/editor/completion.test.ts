import { expect, test } from "vitest";
import { SCHEMA } from "../../testing/samples";
import { suggestions, whenSuggestions } from "./completion";

const LOOKUPS = {
  lists: [
    { name: "mules", type: "long" },
    { name: "types", type: "string" },
  ],
  maps: [
    { name: "limits", keyType: "long", valueType: "decimal" },
    { name: "regions", keyType: "string", valueType: "string" },
  ],
  rules: new Map([[12, "Usual beneficiary"]]),
} as const;

const labels = (form: "yaml" | "json" | "line", before: string) =>
  suggestions(form, before, SCHEMA, LOOKUPS).map((offer) => offer.label);

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

test.each([
  ["yaml", "ruleId: 1\nconditions:\n  - ruleId: "],
  ["yaml", "ruleId: 1\nconditions:\n  - {ruleId: 1"],
  ["json", '{"ruleId": 1,\n"conditions": [{"ruleId": '],
] as const)("rules that a condition can name, in %s after %j", (form, before) => {
  expect(labels(form, before)).toEqual(["12"]);
});

test("fields that a rule can aggregate", () => {
  const offered = labels("yaml", "aggregateFieldName: ");
  expect(offered).toContain("payerId");
  expect(offered).not.toContain("cardPresent");
  expect(offered).not.toContain("paymentType");
});

test.each(["limit: coalesce(", "limit: >-\n  2 * ("])(
  "fields, functions, lists and maps in a limit after %j",
  (before) => {
    expect(labels("yaml", before)).toEqual(
      expect.arrayContaining(["paymentAmount", "hour(", "list('mules')", "map('limits', ", "map_text('regions', "]),
    );
  },
);

test.each([
  ["yaml", "limit: map('", ["limits"]],
  ["yaml", "limit: coalesce(map( 'li", ["limits"]],
  ["yaml", "when: MAP_TEXT('", ["regions"]],
  ["yaml", "when: >-\n  payeeId in list('mules')\n  and map_text('", ["regions"]],
  ["json", '{\n  "limit": "map(\'', ["limits"]],
] as const)("the names of the maps that the function reads in %s after %j", (form, before, names) => {
  expect(labels(form, before)).toEqual(names);
});

test("entities in groupings, and roles in conditions", () => {
  const entity = { name: "account", type: "long", roles: [{ name: "out", field: "payeeId" }] };
  const schema = { ...SCHEMA, entities: [entity] };
  const offered = (before: string) => suggestions("yaml", before, schema, LOOKUPS).map(({ label }) => label);
  expect(offered("groupingKeyNames: [")).toContain("account");
  expect(offered("groupingKeyNames:\n  - ")).toContain("account");
  expect(offered("unique: [")).not.toContain("account");
  expect(offered("filter: ")).toEqual(expect.arrayContaining(["role", "'out'"]));
  expect(offered("filter: role = '")).toContain("out");
  expect(labels("yaml", "filter: ")).not.toContain("role");
});

test("other completions", () => {
  expect(labels("yaml", "aggregatorFunctionType: ")).toEqual(SCHEMA.aggregators);
  expect(labels("yaml", "limitOperatorType: ")).toEqual(SCHEMA.operators);
  expect(labels("yaml", "filter: paymentType = 'CSH' ")).toEqual(
    expect.arrayContaining(["and", "is null", "like", "paymentAmount", "cardPresent", "true", "false", "hour("]),
  );
  expect(labels("line", "1,(")).toEqual(SCHEMA.states);
  expect(labels("line", "1,(active),(payeeId),,(paymentAmount),(")).toEqual(SCHEMA.aggregators);
  expect(labels("yaml", "windowMinutes: ")).toEqual([]);
});

test.each([
  ["yaml", "when: "],
  ["yaml", "limit: 3\nwhen: paymentAmount > 500 "],
  ["yaml", "when: >-\n  paymentAmount > 500\n  and "],
  ["yaml", "when: beneficiaryId in list('mules') and "],
  ["json", '{\n  "when": "'],
  ["json", '{\n  "when": "paymentType = \'CSH\' or '],
] as const)("fields, values, keywords and lists in `when` of %s after %j", (form, before) => {
  expect(labels(form, before)).toEqual(
    expect.arrayContaining(["payerId", "'CSH'", "not", "between", "list('mules')", "list('types')"]),
  );
});

test.each([
  ["yaml", "when: beneficiaryId in list('", ["mules"]],
  ["yaml", "when: payerId not in list('mu", ["mules"]],
  ["yaml", "when: paymentType = 'CSH' and paymentType in list( '", ["types"]],
  ["yaml", "when: |\n  paymentType = 'CSH'\n  and paymentType IN LIST('", ["types"]],
  ["yaml", "when: unknown in list('", ["mules", "types"]],
  ["yaml", "when: lower(paymentType) in list('", ["mules", "types"]],
  ["yaml", "when: paymentAmount in list('", []],
  ["json", '{\n  "when": "beneficiaryId in list(\'', ["mules"]],
] as const)("the names of the lists that fit the field in %s after %j", (form, before, names) => {
  expect(labels(form, before)).toEqual(names);
});

test("the known values inside the quotes of a value in `when`", () => {
  expect(labels("yaml", "when: paymentType = '")).toEqual(["CSH", "CRD"]);
  expect(labels("yaml", "when: paymentType in list('types') and paymentType = '")).toEqual(["CSH", "CRD"]);
});

test("a filter cannot look up lists or maps, or read the previous payment", () => {
  expect(labels("yaml", "filter: ")).not.toContain("list('mules')");
  expect(labels("yaml", "filter: ")).not.toContain("map('limits', ");
  expect(labels("yaml", "filter: ")).not.toContain("previous(");
  expect(labels("yaml", "filter: >-\n  paymentAmount > 5\n  ")).toContain("is null");
  expect(labels("yaml", "baseline:\n  filter: ")).not.toContain("list('mules')");
});

test("members after a predicate of several lines", () => {
  expect(labels("yaml", "when: >-\n  paymentAmount > 500\n")).toEqual(SCHEMA.members);
});

test("the field `when` of the form offers the lists and maps with their types", () => {
  expect(whenSuggestions(SCHEMA, LOOKUPS, "payeeId in ")).toEqual(
    expect.arrayContaining([
      { label: "list('mules')", detail: "list of long" },
      { label: "map('limits', ", detail: "map of long to decimal" },
      { label: "previous(", detail: "field): of the payment before" },
    ]),
  );
  expect(whenSuggestions(SCHEMA, { lists: [], maps: [] }, "payeeId in list('")).toEqual([]);
});
