import { useState } from "react";
import type { RuleDetail, RuleDocument } from "../api/types";
import { type Draft, draftOfDocument, draftOfText, inFormat, type TextFormat, withMembers } from "./editor/draft";
import { useValidation, type ValidationState } from "./editor/useValidation";

/** An edit of a rule, with the server's validation. */
export interface RuleEdit {
  draft: Draft;
  validation: ValidationState;
  /** The edited rule as a document, parsed here or by the server. */
  document: RuleDocument | null;
  /** The visible format. While the server converts the form's changes to a line, the draft itself is YAML. */
  format: TextFormat;
  text: string;
  /** The one-line form of the rule; null if it has none. */
  line: string | null;
  dirty: boolean;
  /** The members of a new rule that the user has edited; null once errors of all members are visible. */
  touched: ReadonlySet<string> | null;
  /** Makes the errors of all members visible. */
  touchAll: () => void;
  /** The revision on which the edit is based. */
  baseRevision: number | null;
  /** Whether another user saved a newer revision and this edit has changes. */
  outdated: boolean;
  setText: (text: string) => void;
  setMembers: (members: Record<string, unknown>) => void;
  setFormat: (format: TextFormat) => void;
  /** Starts again from the stored rule. */
  reset: (rule: RuleDetail) => void;
  /** Keeps the edit, and bases it on a newer revision. */
  rebase: (rule: RuleDetail) => void;
}

const EMPTY: RuleDocument = {
  name: "",
  groupingKeyNames: null,
  aggregatorFunctionType: "SUM",
  aggregateFieldName: "",
  limitOperatorType: ">",
  limit: "",
  windowMinutes: 20,
};

/** The members that a copy of a rule leaves out: identity, state, source, and the texts that describe the other rule. */
const NOT_COPIED = ["ruleId", "ruleState", "source", "disabled", "name", "description"];

/** An edit of a stored rule, of a copy of another rule, or of a new rule. */
export function useRuleEdit(
  rule: RuleDetail | null,
  template: Pick<RuleDetail, "document"> | null,
  canWrite: boolean,
): RuleEdit {
  const [start, setStart] = useState(() => ({
    draft: initialDraft(rule, template),
    baseRevision: rule?.revision ?? null,
  }));
  const [draft, setDraft] = useState(start.draft);
  const [format, setShownFormat] = useState<TextFormat>("yaml");
  const [touched, setTouched] = useState<ReadonlySet<string> | null>(() =>
    rule === null && template === null ? new Set() : null,
  );
  const dirty = draft.text !== start.draft.text && !sameDocument(draft, start.draft);
  const validation = useValidation(draft, rule, canWrite);
  const line = validation.current ? validation.current.text : null;
  const parsed = draft.format === "line" ? (validation.current ?? validation.last)?.document : null;
  const document = draft.document ?? (parsed ? editableDocument(rule, parsed) : null);
  const isOutdated = rule !== null && start.baseRevision !== null && rule.revision > start.baseRevision;

  const reset = (to: RuleDetail) => {
    const initial = initialDraft(to, null);
    const shown = format === "json" ? inFormat(initial, "json", null) : initial;
    setStart({ draft: shown, baseRevision: to.revision });
    setDraft(shown);
    if (format === "line") setShownFormat("yaml");
  };
  // The edit has no changes to lose, so it continues from the newer revision.
  if (isOutdated && !dirty) reset(rule);
  // The server has converted the form's changes to a line.
  if (format === "line" && draft.format === "yaml" && line !== null) setDraft(inFormat(draft, "line", line));

  return {
    draft,
    validation,
    document,
    format,
    text: format === "line" && draft.format !== "line" ? (validation.last?.text ?? "") : draft.text,
    line,
    dirty,
    baseRevision: start.baseRevision,
    outdated: isOutdated && dirty,
    touched,
    touchAll: () => setTouched(null),
    setText: (text) => {
      setTouched(null);
      setDraft(draftOfText(format, text));
    },
    setMembers: (members) => {
      setTouched((old) => old && new Set([...old, ...Object.keys(members)]));
      setDraft(withMembers({ ...draft, document }, members));
    },
    setFormat: (to) => {
      setDraft(inFormat({ ...draft, document }, to, line));
      setShownFormat(to);
    },
    reset,
    rebase: (to) => setStart({ ...start, baseRevision: to.revision }),
  };
}

function initialDraft(rule: RuleDetail | null, template: Pick<RuleDetail, "document"> | null): Draft {
  if (rule !== null) return draftOfDocument("yaml", editableDocument(rule, rule.document));
  if (template === null) return draftOfDocument("yaml", EMPTY);
  if (template.document["ruleId"] === undefined) return draftOfDocument("yaml", template.document);
  const members = Object.entries(template.document).filter(([name]) => !NOT_COPIED.includes(name));
  return draftOfDocument("yaml", { name: "", ...Object.fromEntries(members) });
}

/** The document that a user edits. The document of a draft says SHADOW, but a draft is in no state of the rule log. */
function editableDocument(rule: RuleDetail | null, document: RuleDocument): RuleDocument {
  if (rule !== null && rule.state !== "DRAFT") return document;
  return Object.fromEntries(Object.entries(document).filter(([name]) => name !== "ruleState"));
}

function sameDocument(a: Draft, b: Draft): boolean {
  return a.format !== b.format && a.document !== null && JSON.stringify(a.document) === JSON.stringify(b.document);
}
