import { IconAlertTriangle } from "@tabler/icons-react";
import { Link } from "react-router";
import type { Liveness, OpenTransaction } from "../api/types";
import { airflowPath } from "../basePath";
import { Chip } from "../components/Chip";
import { formatDuration, formatNumber, formatTime, verdictText } from "../format";
import { type Silence, useLivenessQuery, useSilence } from "./useLiveness";

/** A banner on every page while the detector evaluates no payment or is not well, or the server does not answer. */
export function OutageBanner() {
  const liveness = useLivenessQuery().data;
  const silence = useSilence();
  if (silence) return <NoAnswer silence={silence} />;
  if (!liveness) return null;
  return liveness.severity === "NONE" ? <VerdictBanner liveness={liveness} /> : <Outage liveness={liveness} />;
}

/** The server does not answer, so the page does not know the present state. */
function NoAnswer({ silence: { ms, since } }: { silence: Silence }) {
  return (
    <section className="outage" aria-label="No answer" data-severity="AMBER">
      <div className="outage-inside">
        <IconAlertTriangle size={18} aria-hidden style={{ flex: "none" }} />
        <p>
          <strong role="status">The server does not answer.</strong>{" "}
          <span>
            Waiting for {formatDuration(Math.floor(ms / 1_000) * 1_000)}.
            {since !== null && ` This page shows the state of ${formatTime(since)}.`}
          </span>
        </p>
      </div>
    </section>
  );
}

/** The verdicts of a detector whose rules do not get all payments. */
const BLIND = new Set(["BLIND", "MOSTLY_LATE", "MOSTLY_QUARANTINED"]);

/** The verdict of a detector that evaluates payments but is not well, for example because it is blind. */
function VerdictBanner({ liveness: { verdict } }: { liveness: Liveness }) {
  if (verdict.tone !== "bad") return null;
  const isBlind = BLIND.has(verdict.name);
  return (
    <section className="outage" aria-label="Detector fault" data-severity={isBlind ? "RED" : "AMBER"}>
      <div className="outage-inside">
        <IconAlertTriangle size={18} aria-hidden style={{ flex: "none" }} />
        <p>
          <strong role="status">{isBlind ? "Payments do not reach the rules." : "The detector has a fault."}</strong>{" "}
          <span>{reasonText(verdict.reasons[0])}</span>
        </p>
        <BannerLinks verdict={verdict} text={verdict.name.replaceAll("_", " ")} />
      </div>
    </section>
  );
}

function BannerLinks({ verdict, text }: { verdict: Liveness["verdict"]; text: string }) {
  return (
    <>
      <Chip tone={verdict.tone}>{text}</Chip>
      <Link to="/detector">Detector</Link>
      <a href={airflowPath(verdict.runbook)}>Runbook</a>
    </>
  );
}

function Outage({ liveness }: { liveness: Liveness }) {
  const { verdict } = liveness;
  return (
    <section className="outage" aria-label="Outage" data-severity={liveness.severity}>
      <div className="outage-inside">
        <IconAlertTriangle size={18} aria-hidden style={{ flex: "none" }} />
        <p>
          {/* Only what stays the same is announced: the count changes every few seconds. */}
          <strong role="status">{lastEvaluationText(liveness)}</strong> <strong>{waitingText(liveness.waiting)}</strong>{" "}
          <span>
            {restartsText(liveness.starts)} {reasonText(verdict.reasons[0])}
          </span>
        </p>
        <BannerLinks verdict={verdict} text={verdictText(liveness)} />
      </div>
    </section>
  );
}

export function lastEvaluationText({ since, at, missing, openTransaction }: Liveness): string {
  if (missing.length > 0) return `The next batch waits for missing topics: ${missing.join(", ")}.`;
  if (openTransaction) return hiddenText(openTransaction, at);
  if (since === null) return "No payment evaluated yet.";
  return `No payment evaluated since ${formatTime(since, at)}.`;
}

/** The records that a producer's open transaction hides from the detector. */
function hiddenText({ topic, partition, offset, sinceMs, producerId, transactionalId }: OpenTransaction, at: number) {
  const name = transactionalId ? ` (${transactionalId})` : "";
  const producer = producerId === null ? "an unknown producer" : `producer ${producerId.toString()}${name}`;
  return `A transaction of ${producer}, open since ${formatTime(sinceMs, at)}, hides ${topic}-${partition.toString()} from offset ${offset.toString()} on.`;
}

export function waitingText(count: number | null): string {
  if (count === null) return "Number of waiting payments unknown.";
  if (count === 0) return "No payments waiting.";
  return count === 1 ? "1 payment waiting." : `${formatNumber(count)} payments waiting.`;
}

/** The reason of the verdict, as a sentence. */
function reasonText(reason: string | undefined): string {
  return reason ? `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.` : "";
}

function restartsText(starts: number): string {
  if (starts === 0) return "";
  return starts === 1 ? "1 restart requested." : `${formatNumber(starts)} restarts requested.`;
}
