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
import type { Offer } from "./completion";

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** What can be meant at the end of a text. */
  offers: (before: string) => Offer[];
  language?: "yaml" | "json";
  reasons?: readonly Reason[];
  invalid?: boolean;
  oneLine?: boolean;
  readOnly?: boolean;
  placeholder?: string;
}

const fromOutside = Annotation.define<boolean>();

const look = EditorView.theme({
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

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--mark)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--shadow-rule)" },
  { tag: tags.comment, color: "var(--mantine-color-dimmed)", fontStyle: "italic" },
]);

/** A text editor with completion, and with marks where the server finds something wrong. */
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
  const offered = useEffectEvent((before: string) => props.offers(before));
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
          syntaxHighlighting(colours),
          syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
          look,
          EditorView.lineWrapping,
          autocompletion({
            icons: false,
            override: [
              (context) => {
                const word = context.matchBefore(/[\w<>=!]*/u);
                if (!word || (word.from === word.to && !context.explicit)) return null;
                const options = offered(context.state.sliceDoc(0, word.from)).map(completion);
                return options.length > 0 ? { from: word.from, options, validFor: /^[\w<>=!]*$/u } : null;
              },
            ],
          }),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged || update.transactions.some((each) => each.annotation(fromOutside))) return;
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
        // Keeps the focus where it cannot be written in, be it for a moment.
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
    const there = editor?.state.doc.toString();
    if (!editor || there === value) return;
    editor.dispatch({
      changes: { from: 0, to: editor.state.doc.length, insert: value },
      annotations: fromOutside.of(true),
    });
  }, [value]);

  useEffect(() => {
    const editor = view.current;
    if (editor && !oneLine) editor.dispatch(setDiagnostics(editor.state, marks(editor.state.doc.toString(), reasons)));
  }, [reasons, value, oneLine]);

  return <div ref={host} className="editor" data-invalid={invalid} />;
}

function completion({ label, detail }: Offer): Completion {
  return { label, detail };
}

/** Where in the text each reason belongs: the member it names, else the beginning. */
export function marks(text: string, reasons: readonly Reason[]): Diagnostic[] {
  return reasons.map(({ field, message }) => {
    const member = field.replace(/[^\w]/gu, "");
    const found = member === "" ? null : new RegExp(`^[\\s{,]*"?(${member})"?\\s*:.*$`, "mu").exec(text);
    const from = found ? found.index + found[0].indexOf(member) : 0;
    const to = found ? found.index + found[0].length : Math.min(text.length, text.indexOf("\n") >>> 0);
    return { from, to: Math.max(from, to), severity: "error", message: `${field} ${message}` };
  });
}
