import type { Schema } from "../../api/types";
import type { TextFormat } from "./draft";

export interface Suggestion {
  label: string;
  detail: string;
}

const FIELD_MEMBERS = new Set(["groupingKeyNames", "unique", "aggregateFieldName"]);
const KEYWORDS = ["and", "or", "not", "in", "between", "is null", "is not null"];
const BASELINE_MEMBERS = [
  "windowMinutes",
  "windowSeconds",
  "aggregatorFunctionType",
  "aggregateFieldName",
  "filter",
  "minCount",
  "deviations",
];
/** Text that ends inside the baseline: in its indented lines of YAML, or in its braces. */
const IN_BASELINE = /baseline"?:\s*(?:\{[^}]*|\n(?:[ \t][^\n]*\n)*[ \t]+\w*)$/u;
const SEVERITIES = ["critical", "high", "medium", "low"];

/** The completions at the end of `before`, the text from the start of the rule to the cursor. */
export function suggestions(form: TextFormat, before: string, schema: Schema): Suggestion[] {
  return form === "line" ? lineSuggestions(before, schema) : documentSuggestions(before, schema);
}

/** The completions inside a filter after `before`. Inside quotes, these are the known values of the fields. */
export function filterSuggestions(schema: Schema, before: string): Suggestion[] {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const isQuoted = (line.match(/'/gu) ?? []).length % 2 === 1;
  const values = schema.fields.flatMap((field) =>
    field.values.map((value) => ({ label: isQuoted ? value : `'${value}'`, detail: field.label || field.name })),
  );
  return isQuoted ? values : [...fields(schema), ...values, ...KEYWORDS.map((label) => ({ label, detail: "" }))];
}

function lineSuggestions(before: string, schema: Schema): Suggestion[] {
  const position = before.split(",").length - 1;
  if (position === 1) return states(schema);
  if (position === 2 || position === 3 || position === 4) return fields(schema);
  if (position === 5) return aggregators(schema);
  return position === 6 ? operators(schema) : [];
}

function documentSuggestions(before: string, schema: Schema): Suggestion[] {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const member = /^[\s{,]*"?(\w+)"?\s*:/u.exec(line)?.[1];
  if (member !== undefined) return valueSuggestions(member, schema, before);
  if (/^\s*-\s/u.test(line) || /^\s*"\w*$/u.test(line)) {
    // The cursor is in a list item, which belongs to the last member that opened a list.
    const listMember = /(\w+)"?\s*:\s*\[?\s*(?:\n\s*(?:-\s*)?["\w]*,?\s*)*$/u.exec(before)?.[1];
    if (listMember !== undefined && FIELD_MEMBERS.has(listMember)) return fields(schema);
  }
  if (!/^[\s{,]*"?\w*$/u.test(line)) return [];
  const members = IN_BASELINE.test(before) ? BASELINE_MEMBERS : schema.members;
  return members.map((label) => ({ label, detail: "rule field" }));
}

function valueSuggestions(member: string, schema: Schema, before: string): Suggestion[] {
  if (FIELD_MEMBERS.has(member)) return fields(schema);
  if (member === "filter" || member === "when") return filterSuggestions(schema, before);
  if (member === "aggregatorFunctionType") return aggregators(schema);
  if (member === "limitOperatorType") return operators(schema);
  if (member === "action") return schema.actions.map((label) => ({ label, detail: "action" }));
  if (member === "ruleState") return states(schema);
  return member === "severity" ? SEVERITIES.map((label) => ({ label, detail: "severity" })) : [];
}

function fields(schema: Schema): Suggestion[] {
  return schema.fields.flatMap(({ name, type, nullable, aliases, label: title }) => [
    { label: name, detail: [title, type, nullable ? "nullable" : ""].filter(Boolean).join(", ") },
    ...aliases.map((label) => ({ label, detail: `${type}, alias of ${name}` })),
  ]);
}

const states = (schema: Schema) => schema.states.map((label) => ({ label, detail: "state" }));
const aggregators = (schema: Schema) => schema.aggregators.map((label) => ({ label, detail: "aggregate" }));
const operators = (schema: Schema) => schema.operators.map((label) => ({ label, detail: "comparison" }));
