import type { ReactNode } from "react";
import type { Activation, StateName } from "../api/types";

export type Tone = "good" | "warn" | "bad" | "quiet" | "shadow";

/** A word with a colour; the word alone says it too. */
export function Chip({ tone = "quiet", title, children }: { tone?: Tone; title?: string; children: ReactNode }) {
  return (
    <span className="chip" data-tone={tone} title={title}>
      {children}
    </span>
  );
}

const TONES: Record<StateName, Tone> = {
  DRAFT: "quiet",
  SHADOW: "shadow",
  ACTIVE: "good",
  PAUSE: "warn",
  DELETE: "bad",
};

const NAMES: Record<StateName, string> = {
  DRAFT: "Draft",
  SHADOW: "Shadow",
  ACTIVE: "Active",
  PAUSE: "Paused",
  DELETE: "Deleted",
};

/** The name of a state for people. */
export function stateName(state: StateName): string {
  return NAMES[state];
}

/** Where a rule is in its life. */
export function StateChip({ state }: { state: StateName }) {
  return <Chip tone={TONES[state]}>{NAMES[state]}</Chip>;
}

/** What the detector has said of a version. *Live* only when it has said so. */
export function LiveMark({ activation, state }: { activation: Activation | null; state: StateName }) {
  if (state === "DRAFT") return null;
  if (activation?.status === "LIVE") {
    const what = state === "ACTIVE" || state === "SHADOW" ? "Live" : state === "PAUSE" ? "Paused there" : "Ended";
    return (
      <Chip tone={what === "Live" ? "good" : "quiet"} title={`The detector obeys version ${activation.logVersion}`}>
        {what === "Live" && <span className="dot" aria-hidden />}
        {what}
      </Chip>
    );
  }
  if (activation?.status === "REJECTED") {
    const why = activation.reasons.map((reason) => `${reason.field}: ${reason.message}`).join("\n");
    return (
      <Chip tone="bad" title={why}>
        Rejected
      </Chip>
    );
  }
  return (
    <Chip tone="warn" title="The detector has not said anything of this version yet">
      Waiting
    </Chip>
  );
}
