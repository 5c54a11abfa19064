import type { ListRow, MapRow, Schema } from "../../api/types";
import { CALENDARS, TIME_ZONES } from "../../calendar";
import { MAP_FUNCTIONS } from "../../lists/types";
import { SEVERITIES } from "../../severity";
import type { TextFormat } from "./draft";

export interface Suggestion {
  label: string;
  detail: string;
}

/** The lists, maps and rules that a rule can name. */
export interface Lookups {
  lists: readonly Pick<ListRow, "name" | "type">[];
  maps: readonly Pick<MapRow, "name" | "keyType" | "valueType">[];
  /** The names of the rules by id. */
  rules?: ReadonlyMap<number, string>;
}

const FIELD_MEMBERS = new Set(["groupingKeyNames", "unique", "aggregateFieldName"]);
const GROUPING = "groupingKeyNames";
const NUMBERS = new Set(["long", "decimal"]);
const TRUTHS = ["true", "false"];
const PREVIOUS: Suggestion = { label: "previous(", detail: "field): of the payment before" };
const KEYWORDS = ["and", "or", "not", "in", "between", "like", "is null", "is not null"];
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
/** Text that ends inside a predicate over several indented lines of YAML. */
const IN_FOLDED_PREDICATE =
  /(?:^|\n)([ \t]*)(filter|when|limit):[ \t]*[|>][-+]?[ \t]*\n(?:\1[ \t]+\S[^\n]*\n|[ \t]*\n)*\1[ \t]+[^\n]*$/u;
/** Text that ends inside the name of a list: the field or the end of an expression, and the begun name. */
const IN_LIST_NAME = /(\w+|\))\s+(?:not\s+)?in\s+list\s*\(\s*'[^']*$/iu;

/** Text that ends inside the name of a map: the function. */
const IN_MAP_NAME = /\b(map|map_text)\s*\(\s*'[^']*$/iu;

/** Text that ends inside the id of a rule that a condition names. */
const IN_NAMED_RULE = /\bconditions"?\s*:[\s\S]*\bruleId"?\s*:\s*\d*$/u;

/** The completions at the end of `before`, the text from the start of the rule to the cursor. */
export function suggestions(form: TextFormat, before: string, schema: Schema, lookups: Lookups): Suggestion[] {
  return form === "line" ? lineSuggestions(before, schema) : documentSuggestions(before, schema, lookups);
}

/** The completions inside `when` or `limit` after `before`: those of a filter, the previous payment, lists and maps. */
export function whenSuggestions(schema: Schema, { lists, maps }: Lookups, before: string): Suggestion[] {
  const field = IN_LIST_NAME.exec(before)?.[1];
  if (field !== undefined) return fittingLists(schema, lists, field).map((each) => listed(each.name, each));
  const reader = IN_MAP_NAME.exec(before)?.[1]?.toLowerCase();
  if (reader !== undefined) {
    return maps.filter((each) => MAP_FUNCTIONS[each.valueType] === reader).map((each) => mapped(each.name, each));
  }
  const offered = filterSuggestions(schema, before);
  const isQuoted = offered.every(({ label }) => !KEYWORDS.includes(label));
  if (isQuoted) return offered;
  return [
    ...offered,
    PREVIOUS,
    ...lists.map((each) => listed(`list('${each.name}')`, each)),
    ...maps.map((each) => mapped(`${MAP_FUNCTIONS[each.valueType]}('${each.name}', `, each)),
  ];
}

/** The lists with values of the type of the field; all lists for an expression. */
function fittingLists(schema: Schema, lists: Lookups["lists"], name: string): Lookups["lists"] {
  const field = schema.fields.find((each) => each.name === name || each.aliases.includes(name));
  return field === undefined ? lists : lists.filter(({ type }) => type === field.type);
}

const listed = (label: string, { type }: Lookups["lists"][number]) => ({ label, detail: `list of ${type}` });
const mapped = (label: string, { keyType, valueType }: Lookups["maps"][number]) => ({
  label,
  detail: `map of ${keyType} to ${valueType}`,
});

/** The completions inside a filter after `before`. Inside quotes, these are the known values of the fields. */
export function filterSuggestions(schema: Schema, before: string): Suggestion[] {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const isQuoted = (line.match(/'/gu) ?? []).length % 2 === 1;
  const values = schema.fields.flatMap((field) =>
    field.values.map((value) => ({ label: isQuoted ? value : `'${value}'`, detail: field.label || field.name })),
  );
  const truths = schema.fields.some(({ type }) => type === "boolean") ? TRUTHS : [];
  const words = [...truths, ...KEYWORDS].map((label) => ({ label, detail: "" }));
  const roles = schema.entities.flatMap((entity) =>
    entity.roles.map(({ name }) => ({ label: isQuoted ? name : `'${name}'`, detail: `role of ${entity.name}` })),
  );
  if (isQuoted) return [...values, ...roles];
  const role = roles.length > 0 ? [{ label: "role", detail: "role of the entity" }] : [];
  return [...fields(schema), ...role, ...values, ...roles, ...words, ...functions(schema)];
}

function lineSuggestions(before: string, schema: Schema): Suggestion[] {
  const position = before.split(",").length - 1;
  if (position === 1) return states(schema);
  if (position === 2) return members(schema);
  if (position === 3 || position === 4) return fields(schema);
  if (position === 5) return aggregators(schema);
  return position === 6 ? operators(schema) : [];
}

function documentSuggestions(before: string, schema: Schema, lookups: Lookups): Suggestion[] {
  if (IN_NAMED_RULE.test(before)) {
    return [...(lookups.rules ?? [])].map(([ruleId, name]) => ({ label: String(ruleId), detail: name }));
  }
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const member = /^[\s{,]*"?(\w+)"?\s*:/u.exec(line)?.[1] ?? IN_FOLDED_PREDICATE.exec(before)?.[2];
  if (member !== undefined) return valueSuggestions(member, schema, lookups, before);
  if (/^\s*-\s/u.test(line) || /^\s*"\w*$/u.test(line)) {
    // The cursor is in a list item, which belongs to the last member that opened a list.
    const listMember = /(\w+)"?\s*:\s*\[?\s*(?:\n\s*(?:-\s*)?["\w]*,?\s*)*$/u.exec(before)?.[1];
    if (listMember === GROUPING) return members(schema);
    if (listMember !== undefined && FIELD_MEMBERS.has(listMember)) return fields(schema);
  }
  if (!/^[\s{,]*"?\w*$/u.test(line)) return [];
  const known = IN_BASELINE.test(before) ? BASELINE_MEMBERS : schema.members;
  return known.map((label) => ({ label, detail: "rule field" }));
}

function valueSuggestions(member: string, schema: Schema, lookups: Lookups, before: string): Suggestion[] {
  if (member === "aggregateFieldName") return fields(schema, ({ type }) => NUMBERS.has(type));
  if (member === GROUPING) return members(schema);
  if (FIELD_MEMBERS.has(member)) return fields(schema);
  if (member === "filter") return filterSuggestions(schema, before);
  if (member === "when" || member === "limit") return whenSuggestions(schema, lookups, before);
  if (member === "aggregatorFunctionType") return aggregators(schema);
  if (member === "limitOperatorType") return operators(schema);
  if (member === "action") return schema.actions.map((label) => ({ label, detail: "action" }));
  if (member === "ruleState") return states(schema);
  if (member === "windowCalendar") return CALENDARS.map((label) => ({ label, detail: "window" }));
  if (member === "zone") return TIME_ZONES.map((label) => ({ label, detail: "time zone" }));
  return member === "severity" ? SEVERITIES.map((label) => ({ label, detail: "severity" })) : [];
}

function fields(schema: Schema, suits: (field: Schema["fields"][number]) => boolean = () => true): Suggestion[] {
  return schema.fields
    .filter(suits)
    .flatMap(({ name, type, nullable, aliases, label: title }) => [
      { label: name, detail: [title, type, nullable ? "nullable" : ""].filter(Boolean).join(", ") },
      ...aliases.map((label) => ({ label, detail: `${type}, alias of ${name}` })),
    ]);
}

/** The members of a grouping: entities and fields. */
const members = (schema: Schema) => [
  ...schema.entities.map(({ name, type }) => ({ label: name, detail: `${type}, entity` })),
  ...fields(schema),
];
const states = (schema: Schema) => schema.states.map((label) => ({ label, detail: "state" }));
const functions = (schema: Schema) =>
  schema.functions.map(({ name, parameters }) => ({ label: `${name}(`, detail: `${parameters})` }));
const aggregators = (schema: Schema) => schema.aggregators.map((label) => ({ label, detail: "aggregate" }));
const operators = (schema: Schema) => schema.operators.map((label) => ({ label, detail: "comparison" }));
