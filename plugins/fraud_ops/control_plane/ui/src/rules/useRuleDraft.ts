import { useState } from "react";
import type { RuleDetail, RuleDocument } from "../api/types";
import { type Draft, drafted, type Form, inForm, withMembers, written } from "./editor/draft";
import { type Judged, useValidation } from "./editor/useValidation";

/** A rule being written, and what the server says of it. */
export interface Writing {
  draft: Draft;
  judged: Judged;
  /** What is being written as a document: its own, or as the server reads it. */
  document: RuleDocument | null;
  /** The form that is shown; while a line is being made of the form's members, the draft itself is YAML. */
  form: Form;
  text: string;
  /** The one-line form, where the rule has one. */
  line: string | null;
  dirty: boolean;
  /** The revision it was begun from. */
  base: number | null;
  /** A newer revision than that, saved by somebody else meanwhile. */
  overtaken: boolean;
  type: (text: string) => void;
  change: (members: Record<string, unknown>) => void;
  show: (form: Form) => void;
  /** Begin again from what is stored. */
  reset: (rule: RuleDetail) => void;
  /** Keep what is written, to be saved over a newer revision. */
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

/** What a copy does not take over: who it is, where it is in its life, and whose hand it was. */
const OWN = ["ruleId", "ruleState", "source", "disabled"];

/** A draft of a stored rule, of a copy of another, or of a new one. */
export function useRuleDraft(rule: RuleDetail | null, template: RuleDetail | null, mayWrite: boolean): Writing {
  const [start, setStart] = useState(() => ({ draft: first(rule, template), base: rule?.revision ?? null }));
  const [draft, setDraft] = useState(start.draft);
  const [form, setForm] = useState<Form>("yaml");
  const dirty = draft.text !== start.draft.text && !sameDocument(draft, start.draft);
  const judged = useValidation(draft, rule, mayWrite);
  const line = judged.current ? judged.current.text : null;
  const document = draft.document ?? (draft.form === "line" ? (judged.current ?? judged.last)?.document : null) ?? null;
  const newer = rule !== null && start.base !== null && rule.revision > start.base;

  const reset = (to: RuleDetail) => {
    const fresh = first(to, null);
    const shown = form === "json" ? inForm(fresh, "json", null) : fresh;
    setStart({ draft: shown, base: to.revision });
    setDraft(shown);
    if (form === "line") setForm("yaml");
  };
  // Nothing of one's own would be lost: go on from what is stored now.
  if (newer && !dirty) reset(rule);
  // The server has made a line of what was changed in the form.
  if (form === "line" && draft.form === "yaml" && line !== null) setDraft(inForm(draft, "line", line));

  return {
    draft,
    judged,
    document,
    form,
    text: form === "line" && draft.form !== "line" ? (judged.last?.text ?? "") : draft.text,
    line,
    dirty,
    base: start.base,
    overtaken: newer && dirty,
    type: (text) => setDraft(written(form, text)),
    change: (members) => setDraft(withMembers({ ...draft, document }, members)),
    show: (to) => {
      setDraft(inForm({ ...draft, document }, to, line));
      setForm(to);
    },
    reset,
    rebase: (to) => setStart({ ...start, base: to.revision }),
  };
}

function first(rule: RuleDetail | null, template: RuleDetail | null): Draft {
  if (rule !== null) return drafted("yaml", rule.document);
  if (template === null) return drafted("yaml", EMPTY);
  const members = Object.entries(template.document).filter(([name]) => !OWN.includes(name));
  return drafted("yaml", Object.fromEntries(members));
}

function sameDocument(a: Draft, b: Draft): boolean {
  return a.form !== b.form && a.document !== null && JSON.stringify(a.document) === JSON.stringify(b.document);
}
