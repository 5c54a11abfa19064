import { LosslessNumber } from "lossless-json";
import { type Document, isMap, isScalar, isSeq, parseDocument, Scalar, stringify, visit } from "yaml";
import { parseExactly, parseNumber, stringifyExactly } from "../../api/exactJson";
import type { RuleDocument } from "../../api/types";
import { limitIsExpression } from "../../format";

/** The text format of a rule: YAML, JSON or the one-line form. */
export type TextFormat = "yaml" | "json" | "line";

/**
 * A rule during an edit. `text` is the source, with comments, exactly as typed. `document` is the parsed rule. It is null
 * if the text does not parse (see `parseError`), and for the one-line form until the server has parsed it.
 */
export interface Draft {
  readonly format: TextFormat;
  readonly text: string;
  readonly document: RuleDocument | null;
  readonly parseError: string | null;
}

// The server's YAML dialect, so that a value has the same type here and there.
const YAML = { version: "1.1", intAsBigInt: true, prettyErrors: false } as const;

// The source is not a part of the form either, but the control plane sets it.
const LINE_MEMBERS = new Set([
  "ruleId",
  "ruleState",
  "groupingKeyNames",
  "unique",
  "aggregateFieldName",
  "aggregatorFunctionType",
  "limitOperatorType",
  "limit",
  "windowMinutes",
  "source",
]);

/** A draft from a text. */
export function draftOfText(format: TextFormat, text: string): Draft {
  if (format === "line") return { format, text, document: null, parseError: null };
  try {
    const document = format === "json" ? parseExactly(text) : parseYaml(text);
    if (typeof document !== "object" || document === null || Array.isArray(document)) {
      return { format, text, document: null, parseError: "must be a mapping of rule fields" };
    }
    return { format, text, document: document as RuleDocument, parseError: null };
  } catch (error) {
    return { format, text, document: null, parseError: error instanceof Error ? error.message : String(error) };
  }
}

/** A draft from a document. */
export function draftOfDocument(format: "yaml" | "json", document: RuleDocument): Draft {
  const text = format === "json" ? stringifyExactly(document, 2) : toYaml(document);
  return { format, text, document, parseError: null };
}

/** Sets members of the draft (undefined removes one). The rest of the text stays as it is. */
export function withMembers(draft: Draft, members: Record<string, unknown>): Draft {
  if (draft.document === null) return draft;
  const document = { ...draft.document };
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined) Reflect.deleteProperty(document, name);
    else document[name] = value;
  }
  if (draft.format === "json") return { ...draft, document, text: stringifyExactly(document, 2) };
  if (draft.format === "yaml") return { ...draft, document, text: patchYaml(draft.text, members) };
  return draftOfDocument("yaml", document);
}

/** Converts the draft to another format. `line` is its one-line form, or null if it has none. */
export function inFormat(draft: Draft, format: TextFormat, line: string | null): Draft {
  if (format === draft.format) return draft;
  if (format === "line")
    return line === null ? draft : { format, text: line, document: draft.document, parseError: null };
  return draft.document === null ? draft : draftOfDocument(format, draft.document);
}

/** The members of a rule that its one-line form cannot express, also a limit that is an expression. */
export function membersWithoutLine(document: RuleDocument | null): string[] {
  return Object.entries(document ?? {}).flatMap(([name, value]) =>
    value === null || (LINE_MEMBERS.has(name) && !(name === "limit" && limitIsExpression(value))) ? [] : [name],
  );
}

/** The request body for validation and saving. */
export function requestBody(draft: Draft): { yaml: string } | { text: string } {
  return draft.format === "yaml" ? { yaml: draft.text } : { text: draft.text };
}

function toYaml(document: RuleDocument): string {
  return stringify(yamlValue(document), { ...YAML, lineWidth: 0 });
}

function patchYaml(text: string, members: Record<string, unknown>): string {
  const parsed = parseDocument(text, YAML);
  keepExact(parsed);
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined) parsed.delete(name);
    else if (Array.isArray(value)) parsed.set(name, parsed.createNode(yamlValue(value), { flow: true }));
    else parsed.set(name, yamlValue(value));
  }
  return parsed.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** Writes a decimal that JavaScript would round as a string, which a rule accepts as a number. */
function keepExact(parsed: Document): void {
  visit(parsed, {
    Scalar: (_, node) => {
      const exact = typeof node.value === "number" && node.source !== undefined ? parseNumber(decimal(node)) : null;
      if (exact instanceof LosslessNumber) node.value = exact.toString();
    },
  });
}

function yamlValue(value: unknown): unknown {
  if (value instanceof LosslessNumber) {
    const text = value.toString();
    return /^-?\d+$/u.test(text) ? BigInt(text) : text;
  }
  if (Array.isArray(value)) return value.map(yamlValue);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, yamlValue(each)]));
  }
  return value;
}

function parseYaml(text: string): unknown {
  const parsed = parseDocument(text, YAML);
  const [error] = parsed.errors;
  if (error) throw error;
  return toPlain(parsed.contents);
}

function toPlain(node: unknown): unknown {
  if (isMap(node))
    return Object.fromEntries(node.items.map((pair) => [String(toPlain(pair.key)), toPlain(pair.value)]));
  if (isSeq(node)) return node.items.map(toPlain);
  if (!isScalar(node)) return null;
  if (typeof node.value === "bigint") return parseNumber(node.value.toString());
  if (typeof node.value === "number") return parseNumber(decimal(node));
  return node.value instanceof Date ? (node.source ?? null) : node.value;
}

function decimal(node: Scalar): string {
  const source = node.source ?? "";
  return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/u.test(source) ? source : String(node.value);
}
