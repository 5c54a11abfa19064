import type { PaymentDecision } from "../api/types";
import { Chip, type Tone } from "../components/Chip";
import { formatNumber } from "../format";

type Outcome = PaymentDecision["outcome"];

const TONES: Record<Outcome, Tone> = { DECLINE: "bad", REVIEW: "warn", NOTE: "quiet" };

export const OUTCOME_NAMES: Record<Outcome, string> = { DECLINE: "Decline", REVIEW: "Review", NOTE: "Note" };

/** The outcome of a decision, with that before its correction. */
export function OutcomeChip({ decision }: { decision: PaymentDecision }) {
  const { outcome } = decision.corrected ?? decision;
  return (
    <>
      <Chip tone={TONES[outcome]}>{OUTCOME_NAMES[outcome]}</Chip>{" "}
      {decision.corrected && (
        <Chip title="Re-evaluated">
          was {OUTCOME_NAMES[decision.outcome]}, {formatNumber(decision.score)}
        </Chip>
      )}
    </>
  );
}
