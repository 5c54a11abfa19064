import type { ReactNode } from "react";
import type { Activation, StateName } from "../api/types";
import { useOutage } from "../live/useLiveness";
import { time } from "./format";

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

/** The detector's report on a version. *Live* only if the detector obeys it and evaluates payments now. */
export function LiveMark({ activation, state }: { activation: Activation | null; state: StateName }) {
  if (state === "DRAFT") return null;
  if (activation?.status === "LIVE") {
    return <Obeyed version={activation.logVersion} state={state} />;
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
    <Chip tone="warn" title="Not yet read by the detector">
      Pending
    </Chip>
  );
}

function Obeyed({ version, state }: { version: number; state: StateName }) {
  const outage = useOutage();
  if (state !== "ACTIVE" && state !== "SHADOW") {
    return (
      <Chip title={`Detector uses rule version ${version}`}>
        {state === "PAUSE" ? "Paused in detector" : "Ended in detector"}
      </Chip>
    );
  }
  if (outage) {
    const since = outage.since === null ? "" : ` since ${time(outage.since, outage.at)}`;
    return (
      <Chip tone="warn" title={`Detector has rule version ${version}, but no payment evaluated${since}`}>
        Not evaluated
      </Chip>
    );
  }
  return (
    <Chip tone="good" title={`Detector uses rule version ${version}`}>
      <span className="dot" aria-hidden />
      Live
    </Chip>
  );
}
