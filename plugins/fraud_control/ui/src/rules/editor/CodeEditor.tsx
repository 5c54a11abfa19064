import { autocompletion, closeBrackets, type Completion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { defaultHighlightStyle, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, setDiagnostics } from "@codemirror/lint";
import { Annotation, Compartment, EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap, placeholder as placeholderOf } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useEffectEvent, useRef } from "react";
import type { Reason } from "../../api/types";
import type { Suggestion } from "./completion";

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** Returns the completions at the end of a text. */
  suggest: (before: string) => Suggestion[];
  language?: "yaml" | "json";
  reasons?: readonly Reason[];
  invalid?: boolean;
  oneLine?: boolean;
  readOnly?: boolean;
  placeholder?: string;
}

const externalChange = Annotation.define<boolean>();

const editorTheme = EditorView.theme({
  "&": { fontSize: "0.8125rem", backgroundColor: "transparent", color: "var(--mantine-color-text)" },
  ".cm-content": {
    fontFamily: "var(--mantine-font-family-monospace)",
    padding: "0.5rem 0",
    caretColor: "currentColor",
  },
  ".cm-line": { padding: "0 0.75rem" },
  ".cm-cursor": { borderLeftColor: "currentColor" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--quiet-soft) !important" },
  ".cm-placeholder": { color: "var(--mantine-color-placeholder)" },
  ".cm-tooltip": { backgroundColor: "var(--surface-raised)", border: "1px solid var(--line)", color: "inherit" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--mark)", color: "var(--surface)" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: "0.8" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap" },
  ".cm-scroller": { overflow: "auto" },
});

const highlightColors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--mark)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--shadow-rule)" },
  { tag: tags.comment, color: "var(--mantine-color-dimmed)", fontStyle: "italic" },
]);

/** A text editor with completion and with the server's errors as marks. */
export function CodeEditor(props: Props) {
  const {
    label,
    value,
    language,
    reasons = [],
    invalid = false,
    oneLine = false,
    readOnly = false,
    placeholder,
  } = props;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const compartment = useRef(new Compartment());
  const changed = useEffectEvent((text: string) => props.onChange(text));
  const suggested = useEffectEvent((before: string) => props.suggest(before));
  const initial = useEffectEvent(() => value);

  useEffect(() => {
    if (!host.current) return;
    const editor = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: initial(),
        extensions: [
          compartment.current.of([]),
          history(),
          closeBrackets(),
          keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
          syntaxHighlighting(highlightColors),
          syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
          editorTheme,
          EditorView.lineWrapping,
          autocompletion({
            icons: false,
            override: [
              (context) => {
                const word = context.matchBefore(/[\w<>=!]*/u);
                if (!word || (word.from === word.to && !context.explicit)) return null;
                const options = suggested(context.state.sliceDoc(0, word.from)).map(completion);
                return options.length > 0 ? { from: word.from, options, validFor: /^[\w<>=!]*$/u } : null;
              },
            ],
          }),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged || update.transactions.some((each) => each.annotation(externalChange))) return;
            changed(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => {
      view.current = null;
      editor.destroy();
    };
  }, []);

  useEffect(() => {
    const extensions: Extension[] = [
      EditorView.contentAttributes.of({
        "aria-label": label,
        "aria-invalid": String(invalid),
        "aria-readonly": String(readOnly),
        // Keeps the focus in the editor while it is read-only, for example during a save.
        tabindex: "0",
      }),
      EditorState.readOnly.of(readOnly),
      EditorView.editable.of(!readOnly),
    ];
    if (language) extensions.push(language === "json" ? json() : yaml());
    if (placeholder) extensions.push(placeholderOf(placeholder));
    if (oneLine) {
      extensions.push(EditorState.transactionFilter.of((change) => (change.newDoc.lines > 1 ? [] : change)));
    }
    view.current?.dispatch({ effects: compartment.current.reconfigure(extensions) });
  }, [label, invalid, readOnly, language, placeholder, oneLine]);

  useEffect(() => {
    const editor = view.current;
    const current = editor?.state.doc.toString();
    if (!editor || current === value) return;
    editor.dispatch({
      changes: { from: 0, to: editor.state.doc.length, insert: value },
      annotations: externalChange.of(true),
    });
  }, [value]);

  useEffect(() => {
    const editor = view.current;
    if (editor && !oneLine)
      editor.dispatch(setDiagnostics(editor.state, diagnostics(editor.state.doc.toString(), reasons)));
  }, [reasons, value, oneLine]);

  return <div ref={host} className="editor" data-invalid={invalid} />;
}

function completion({ label, detail }: Suggestion): Completion {
  return { label, detail };
}

/** The position of each error in the text: at the field that it names, otherwise at the start. */
export function diagnostics(text: string, reasons: readonly Reason[]): Diagnostic[] {
  return reasons.map(({ field, message }) => {
    const member = field.replace(/[^\w]/gu, "");
    const found = member === "" ? null : new RegExp(`^[\\s{,]*"?(${member})"?\\s*:.*$`, "mu").exec(text);
    const from = found ? found.index + found[0].indexOf(member) : 0;
    const to = found ? found.index + found[0].length : Math.min(text.length, text.indexOf("\n") >>> 0);
    return { from, to: Math.max(from, to), severity: "error", message: `${field} ${message}` };
  });
}
