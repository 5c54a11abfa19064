import { TextInput } from "@mantine/core";
import { isNumeric, parseNumber, toText } from "../../api/exactJson";
import type { RuleDocument } from "../../api/types";

interface DecimalProps {
  name: string;
  label: string;
  rule: RuleDocument;
  error: string | null;
  readOnly: boolean;
  change: (members: Record<string, unknown>) => void;
}

/** An input for a decimal. It keeps the text until the text is a number, so that a trailing point survives. */
export function DecimalInput({ name, label, rule, error, readOnly, change }: DecimalProps) {
  return (
    <TextInput
      label={label}
      inputMode="decimal"
      value={toText(rule[name])}
      error={error}
      readOnly={readOnly}
      onChange={(event) => change({ [name]: parseTyped(event.currentTarget.value) })}
      style={{ flexBasis: "7rem" }}
    />
  );
}

/** A number if it prints as the typed text; otherwise the text, which the server then validates. */
export function parseTyped(text: string): unknown {
  if (text === "") return undefined;
  if (!/^-?(0|[1-9]\d*)(\.\d+)?$/u.test(text)) return text;
  const value = parseNumber(text);
  return isNumeric(value) && toText(value) === text ? value : text;
}
