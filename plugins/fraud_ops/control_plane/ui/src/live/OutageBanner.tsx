import { IconAlertTriangle } from "@tabler/icons-react";
import { Link } from "react-router";
import type { Liveness } from "../api/types";
import { Chip } from "../parts/Chip";
import { number, time, verdictName } from "../parts/format";
import { useLiveness } from "./useLiveness";

/** One strip on every page while no payment is evaluated. */
export function OutageBanner() {
  const liveness = useLiveness({ asks: true });
  if (!liveness || liveness.severity === "NONE") return null;
  const { verdict } = liveness;
  return (
    <section className="outage" aria-label="Outage" data-severity={liveness.severity}>
      <div className="outage-inside">
        <IconAlertTriangle size={18} aria-hidden style={{ flex: "none" }} />
        <p>
          {/* Only what stays the same is announced: the count changes every few seconds. */}
          <strong role="status">{evaluated(liveness)}</strong> <strong>{waiting(liveness.waiting)}</strong>{" "}
          <span>
            {restarts(liveness.starts)} {sentence(verdict.reasons[0])}
          </span>
        </p>
        <Chip tone={verdict.tone}>{verdictName(liveness)}</Chip>
        <Link to="/detector">Detector</Link>
        <a href={verdict.runbook}>Runbook</a>
      </div>
    </section>
  );
}

export function evaluated({ since, at }: Liveness): string {
  if (since === null) return "No payment evaluated yet.";
  return `No payment evaluated since ${time(since, at)}.`;
}

export function waiting(count: number | null): string {
  if (count === null) return "Number of waiting payments unknown.";
  if (count === 0) return "No payments waiting.";
  return count === 1 ? "1 payment waiting." : `${number(count)} payments waiting.`;
}

/** What the detector does now, or why it does not run. */
function sentence(reason: string | undefined): string {
  return reason ? `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.` : "";
}

function restarts(starts: number): string {
  if (starts === 0) return "";
  return starts === 1 ? "1 restart requested." : `${number(starts)} restarts requested.`;
}
