import type { Activation, WarmUp } from "../api/types";
import { formatNumber, formatTime } from "../format";
import { Chip, type Tone } from "./Chip";

/** The progress of a rule's warm-up: whether its windows contain the payments before it. */
export function WarmUpChip({ activation }: { activation: Activation | null }) {
  const warmUp = activation?.warmUp;
  if (activation?.status !== "LIVE" || !warmUp) return null;
  const { tone, text, title } = described(warmUp);
  return (
    <Chip tone={tone} title={title}>
      {text}
    </Chip>
  );
}

function described(warmUp: WarmUp): { tone: Tone; text: string; title: string } {
  switch (warmUp.state) {
    case "REQUESTED":
      return { tone: "warn", text: "Warm-up requested", title: "Windows lack the payments before this rule" };
    case "RUNNING":
      return {
        tone: "warn",
        text: `Warming, ${Math.round((warmUp.progress ?? 0) * 100)}%`,
        title: "A job collects the payments before this rule",
      };
    case "WARM":
      return {
        tone: "good",
        text: warmUp.time === null ? "Warm" : `Warm since ${formatTime(warmUp.time)}`,
        title: [
          `${formatNumber(warmUp.rows)} earlier payments added`,
          warmUp.since === null ? "" : `history complete from ${formatTime(warmUp.since)}`,
        ]
          .filter(Boolean)
          .join(", "),
      };
    case "REFUSED":
      return { tone: "bad", text: "Warm-up refused", title: warmUp.reason };
  }
}
