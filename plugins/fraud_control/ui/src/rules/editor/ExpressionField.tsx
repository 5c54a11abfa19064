import { InputWrapper, Text } from "@mantine/core";
import { CodeEditor } from "./CodeEditor";
import type { Suggestion } from "./completion";
import { type ExpressionMember, type SamplePayment, useSampleValue } from "./useSample";

interface Props {
  member: ExpressionMember;
  label: string;
  value: string;
  placeholder: string;
  error: string | null;
  /** A remark that does not prevent a save. */
  warning: string | null;
  readOnly: boolean;
  /** The payment for which the field shows the value, once its text is known. */
  sample: SamplePayment;
  suggest: (before: string) => Suggestion[];
  change: (value: string) => void;
}

/** An expression of a rule in an editor, with its error, its warning, and its value for the sample payment. */
export function ExpressionField({
  member,
  label,
  value,
  placeholder,
  error,
  warning,
  readOnly,
  sample,
  suggest,
  change,
}: Props) {
  return (
    <InputWrapper
      label={label}
      error={error}
      description={warning === null ? null : <span style={{ color: "var(--warn)" }}>{warning}</span>}
      inputWrapperOrder={["label", "input", "description", "error"]}
      labelElement="div"
    >
      <CodeEditor
        label={label}
        value={value}
        onChange={change}
        suggest={suggest}
        invalid={error !== null}
        readOnly={readOnly}
        oneLine
        placeholder={placeholder}
      />
      <SampleLine member={member} text={value} sample={sample} hasError={error !== null} />
    </InputWrapper>
  );
}

interface SampleLineProps {
  member: ExpressionMember;
  text: string;
  sample: SamplePayment;
  /** Whether the field shows an error already. */
  hasError: boolean;
}

/** The value of an expression for the sample payment, or the reason why it has none. */
function SampleLine({ member, text, sample, hasError }: SampleLineProps) {
  const found = useSampleValue(member, text, sample);
  const reasons = found?.reasons.filter(({ field }) => !hasError || field !== member) ?? [];
  return (
    <Text component="div" size="xs" c="dimmed" aria-live="polite">
      {reasons.length > 0
        ? `No value: ${reasons.map(({ field, message }) => `${field} ${message}`).join("; ")}`
        : found?.reasons.length === 0 && `Sample payment: ${found.value ?? "null"}`}
    </Text>
  );
}
