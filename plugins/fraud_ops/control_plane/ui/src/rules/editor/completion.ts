import type { Schema } from "../../api/types";
import type { Form } from "./draft";

export interface Offer {
  label: string;
  detail: string;
}

const FIELD_MEMBERS = new Set(["groupingKeyNames", "unique", "aggregateFieldName"]);
const WORDS = ["and", "or", "not", "in", "between", "is null", "is not null"];
const SEVERITIES = ["critical", "high", "medium", "low"];

/** What can be meant at the end of `before`, the text from the beginning of the rule to the cursor. */
export function offers(form: Form, before: string, schema: Schema): Offer[] {
  return form === "line" ? inLine(before, schema) : inDocument(before, schema);
}

/** What a filter can go on with. */
export function filterOffers(schema: Schema): Offer[] {
  return [...fields(schema), ...WORDS.map((label) => ({ label, detail: "" }))];
}

function inLine(before: string, schema: Schema): Offer[] {
  const place = before.split(",").length - 1;
  if (place === 1) return states(schema);
  if (place === 2 || place === 3 || place === 4) return fields(schema);
  if (place === 5) return aggregators(schema);
  return place === 6 ? operators(schema) : [];
}

function inDocument(before: string, schema: Schema): Offer[] {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const member = /^[\s{,]*"?(\w+)"?\s*:/u.exec(line)?.[1];
  if (member !== undefined) return valuesOf(member, schema);
  if (/^\s*-\s/u.test(line) || /^\s*"\w*$/u.test(line)) {
    // An item of a list: that of the last member before it that has begun one.
    const opened = /(\w+)"?\s*:\s*\[?\s*(?:\n\s*(?:-\s*)?["\w]*,?\s*)*$/u.exec(before)?.[1];
    if (opened !== undefined && FIELD_MEMBERS.has(opened)) return fields(schema);
  }
  return /^[\s{,]*"?\w*$/u.test(line) ? schema.members.map((label) => ({ label, detail: "rule field" })) : [];
}

function valuesOf(member: string, schema: Schema): Offer[] {
  if (FIELD_MEMBERS.has(member)) return fields(schema);
  if (member === "filter") return filterOffers(schema);
  if (member === "aggregatorFunctionType") return aggregators(schema);
  if (member === "limitOperatorType") return operators(schema);
  if (member === "action") return schema.actions.map((label) => ({ label, detail: "action" }));
  if (member === "ruleState") return states(schema);
  return member === "severity" ? SEVERITIES.map((label) => ({ label, detail: "severity" })) : [];
}

function fields(schema: Schema): Offer[] {
  return schema.fields.flatMap(({ name, type, nullable, aliases }) => [
    { label: name, detail: nullable ? `${type}, nullable` : type },
    ...aliases.map((label) => ({ label, detail: `${type}, alias of ${name}` })),
  ]);
}

const states = (schema: Schema) => schema.states.map((label) => ({ label, detail: "state" }));
const aggregators = (schema: Schema) => schema.aggregators.map((label) => ({ label, detail: "aggregate" }));
const operators = (schema: Schema) => schema.operators.map((label) => ({ label, detail: "comparison" }));
