import type { ReactNode } from "react";
import type { Activation, StateName } from "../api/types";
import { formatTime } from "../format";
import { useOutage } from "../outage/useLiveness";

export type Tone = "good" | "warn" | "bad" | "quiet" | "shadow";

/** A coloured label. The text alone carries the meaning; the colour repeats it. */
export function Chip({ tone = "quiet", title, children }: { tone?: Tone; title?: string; children: ReactNode }) {
  return (
    <span className="chip" data-tone={tone} title={title}>
      {children}
    </span>
  );
}

const STATE_TONES: Record<StateName, Tone> = {
  DRAFT: "quiet",
  SHADOW: "shadow",
  ACTIVE: "good",
  SIGNAL: "quiet",
  PAUSE: "warn",
  DELETE: "bad",
};

const STATE_NAMES: Record<StateName, string> = {
  DRAFT: "Draft",
  SHADOW: "Shadow",
  ACTIVE: "Active",
  SIGNAL: "Signal",
  PAUSE: "Paused",
  DELETE: "Deleted",
};

/** The display name of a rule state. */
export function stateName(state: StateName): string {
  return STATE_NAMES[state];
}

/** The state of a rule, as a chip. */
export function StateChip({ state }: { state: StateName }) {
  return <Chip tone={STATE_TONES[state]}>{STATE_NAMES[state]}</Chip>;
}

/** The detector's answer to a version of a list, or of a rule in a state. *Live* means that the detector has the version
 * and evaluates payments. */
export function ActivationChip({ activation, state }: { activation: Activation | null; state?: StateName }) {
  if (state === "DRAFT") return null;
  if (activation?.status === "LIVE") {
    return <LoadedChip version={activation.logVersion} state={state} />;
  }
  if (activation?.status === "REJECTED") {
    const reasons = activation.reasons.map((reason) => `${reason.field}: ${reason.message}`).join("\n");
    return (
      <Chip tone="bad" title={reasons}>
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

function LoadedChip({ version, state }: { version: number; state: StateName | undefined }) {
  const outage = useOutage();
  const named = `${state ? "rule" : "list"} version ${version}`;
  if (state === "PAUSE" || state === "DELETE") {
    return (
      <Chip title={`Detector uses ${named}`}>{state === "PAUSE" ? "Paused in detector" : "Ended in detector"}</Chip>
    );
  }
  if (outage) {
    const since = outage.since === null ? "" : ` since ${formatTime(outage.since, outage.at)}`;
    return (
      <Chip tone="warn" title={`Detector has ${named}, but no payment evaluated${since}`}>
        Not evaluated
      </Chip>
    );
  }
  return (
    <Chip tone="good" title={`Detector uses ${named}`}>
      <span className="dot" aria-hidden />
      Live
    </Chip>
  );
}
