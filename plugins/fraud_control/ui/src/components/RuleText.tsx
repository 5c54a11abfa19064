import { useSchema } from "../api/hooks";
import type { RuleDocument } from "../api/types";
import { ruleFormula } from "../format";
import { ruleSentence } from "../ruleSentence";

interface Props {
  rule: RuleDocument;
  /** Whether to show the exact line below the sentence. */
  withLine?: boolean;
}

/** A rule in words, with its filter. An unfinished rule has only its line. */
export function RuleText({ rule, withLine = false }: Props) {
  const { data } = useSchema();
  const sentence = data ? ruleSentence(rule, data.fields) : null;
  const line = ruleFormula(rule);
  if (sentence === null) return <span className="code">{line}</span>;
  return (
    <span className="wrap" title={withLine ? undefined : line}>
      {sentence}
      {withLine && <span className="code rule-line">{line}</span>}
    </span>
  );
}
