import { LosslessNumber } from "lossless-json";
import { type Document, isMap, isScalar, isSeq, parseDocument, Scalar, stringify, visit } from "yaml";
import { numberOf, parseExactly, stringifyExactly } from "../../api/exactJson";
import type { RuleDocument } from "../../api/types";

/** How a rule is written: YAML, JSON, or the one-line text form. */
export type Form = "yaml" | "json" | "line";

/**
 * A rule being written. `text` is the truth and is kept as typed, comments included; `document` is what it says, and null
 * while it does not parse (`fault` says why) or, for a line, until the server has read it.
 */
export interface Draft {
  readonly form: Form;
  readonly text: string;
  readonly document: RuleDocument | null;
  readonly fault: string | null;
}

// As the server reads it, so that what looks like a word or a number here is one there.
const YAML = { version: "1.1", intAsBigInt: true, prettyErrors: false } as const;

/** A draft of a text. */
export function written(form: Form, text: string): Draft {
  if (form === "line") return { form, text, document: null, fault: null };
  try {
    const document = form === "json" ? parseExactly(text) : plainYaml(text);
    if (typeof document !== "object" || document === null || Array.isArray(document)) {
      return { form, text, document: null, fault: "must be a mapping of rule fields" };
    }
    return { form, text, document: document as RuleDocument, fault: null };
  } catch (error) {
    return { form, text, document: null, fault: error instanceof Error ? error.message : String(error) };
  }
}

/** A draft of a document. */
export function drafted(form: "yaml" | "json", document: RuleDocument): Draft {
  const text = form === "json" ? stringifyExactly(document, 2) : yamlOf(document);
  return { form, text, document, fault: null };
}

/** The draft with other members (undefined takes one away), its text changed only there. */
export function withMembers(draft: Draft, members: Record<string, unknown>): Draft {
  if (draft.document === null) return draft;
  const document = { ...draft.document };
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined) Reflect.deleteProperty(document, name);
    else document[name] = value;
  }
  if (draft.form === "json") return { ...draft, document, text: stringifyExactly(document, 2) };
  if (draft.form === "yaml") return { ...draft, document, text: patched(draft.text, members) };
  return drafted("yaml", document);
}

/** The same rule written in another way; `line` is its one-line form, where it has one. */
export function inForm(draft: Draft, form: Form, line: string | null): Draft {
  if (form === draft.form) return draft;
  if (form === "line") return line === null ? draft : { form, text: line, document: draft.document, fault: null };
  return draft.document === null ? draft : drafted(form, draft.document);
}

/** What the server is asked to look at, or to save. */
export function request(draft: Draft): { yaml: string } | { text: string } {
  return draft.form === "yaml" ? { yaml: draft.text } : { text: draft.text };
}

function yamlOf(document: RuleDocument): string {
  return stringify(yamlValue(document), { ...YAML, lineWidth: 0 });
}

function patched(text: string, members: Record<string, unknown>): string {
  const parsed = parseDocument(text, YAML);
  keepExact(parsed);
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined) parsed.delete(name);
    else if (Array.isArray(value)) parsed.set(name, parsed.createNode(yamlValue(value), { flow: true }));
    else parsed.set(name, yamlValue(value));
  }
  return parsed.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** A decimal that JavaScript would round is written as text, which means the same in a rule. */
function keepExact(parsed: Document): void {
  visit(parsed, {
    Scalar: (_, node) => {
      const exact = typeof node.value === "number" && node.source !== undefined ? numberOf(decimal(node)) : null;
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

function plainYaml(text: string): unknown {
  const parsed = parseDocument(text, YAML);
  const [error] = parsed.errors;
  if (error) throw error;
  return plain(parsed.contents);
}

function plain(node: unknown): unknown {
  if (isMap(node)) return Object.fromEntries(node.items.map((pair) => [String(plain(pair.key)), plain(pair.value)]));
  if (isSeq(node)) return node.items.map(plain);
  if (!isScalar(node)) return null;
  if (typeof node.value === "bigint") return numberOf(node.value.toString());
  if (typeof node.value === "number") return numberOf(decimal(node));
  return node.value instanceof Date ? (node.source ?? null) : node.value;
}

function decimal(node: Scalar): string {
  const source = node.source ?? "";
  return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/u.test(source) ? source : String(node.value);
}
