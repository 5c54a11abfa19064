import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Approval, ApprovalFigures as Figures, LabelFigures, Me } from "../api/types";
import { airflowPath } from "../basePath";
import { ErrorAlert } from "../components/ErrorAlert";
import { Fact } from "../components/Fact";
import { LabelPrecision } from "../components/Precision";
import { QueryResult } from "../components/QueryResult";
import { Timestamp } from "../components/Timestamp";
import { formatCount, formatNumber } from "../format";
import { CoverageFact } from "./CoverageFact";
import { useWhatIf } from "./useWhatIf";

const DAYS = 14;
const DAY_MS = 86_400_000;
const RUNNING_POLL_MS = 2_000;
const EVALUATED = [null, "ACTIVE", "SIGNAL", "SHADOW"];

/** The shadow alerts, the newest what-if and the expected alerts per day of a rule that awaits approval. */
export function ApprovalFigures({ approval, me }: { approval: Approval; me: Me }) {
  const { start, id, answer } = useWhatIf();
  const status = answer.data?.status;
  const figures = useQuery({
    queryKey: keys.approvalFigures(approval.id, status === "DONE" ? (id ?? "") : ""),
    queryFn: ({ signal }) => get<Figures>(`/approvals/${approval.id}/figures`, signal),
    // The server starts a what-if of each request.
    refetchInterval: ({ state: { data } }) => (data?.running === true ? RUNNING_POLL_MS : false),
  });
  if (approval.ruleId === null || !EVALUATED.includes(approval.target)) return null;
  const failure = status === "FAILED" ? (answer.data?.said ?? "") : null;
  return (
    <section aria-label={`Figures of request ${approval.id}`}>
      <QueryResult query={figures}>
        {({ shadow, present, whatIf, running }) => (
          <>
            <dl className="facts">
              {present && <Fact name="Alerts per day now">{formatNumber(present.alertsPerDay)}</Fact>}
              {shadow && <ShadowFacts shadow={shadow} />}
              {whatIf && <WhatIfFacts whatIf={whatIf} />}
            </dl>
            {whatIf === null && (
              <Text size="sm" role="status">
                {running ? "What-if of this request is running" : "No what-if of this version of the rule yet"}
              </Text>
            )}
          </>
        )}
      </QueryResult>
      {start.error && <ErrorAlert error={start.error} />}
      {answer.error && <ErrorAlert error={answer.error} />}
      {failure !== null && (
        <Text size="sm" role="alert">
          What-if failed: {failure}
        </Text>
      )}
      {me.can.includes("whatIf") && (
        <Button
          variant="default"
          size="xs"
          my="xs"
          loading={start.isPending || status === "WAITING" || status === "RUNNING"}
          onClick={() => start.mutate({ document: approval.document, days: DAYS, windows: false })}
        >
          Run what-if over {DAYS} days
        </Button>
      )}
    </section>
  );
}

function ShadowFacts({ shadow }: { shadow: NonNullable<Figures["shadow"]> }) {
  const days = (shadow.until - shadow.since) / DAY_MS;
  return (
    <>
      <Fact name="Shadow alerts">
        {formatNumber(shadow.alerts)} since <Timestamp ms={shadow.since} />
      </Fact>
      {days >= 1 && <Fact name="Shadow alerts per day">{formatNumber(shadow.alerts / days)}</Fact>}
      <Fact name="Marked shadow alerts">
        {formatNumber(shadow.fraud)} fraud, {formatNumber(shadow.notFraud)} not fraud
        {shadow.byRequester > 0 && (
          <>
            <br />
            {formatNumber(shadow.byRequester)} of {formatCount(shadow.fraud + shadow.notFraud, "mark")} by the requester
          </>
        )}
      </Fact>
    </>
  );
}

function WhatIfFacts({ whatIf }: { whatIf: NonNullable<Figures["whatIf"]> }) {
  const labels = whatIf.labels as unknown as LabelFigures | null;
  const days = whatIf.days.length;
  return (
    <>
      <Fact name="Expected alerts per day">
        {formatNumber(whatIf.alertsPerDay)}
        {whatIf.expected && ` (${formatNumber(whatIf.expected[0])} to ${formatNumber(whatIf.expected[1])})`}
      </Fact>
      <Fact name="What-if">
        <a href={airflowPath(whatIf.report)}>
          {formatCount(whatIf.fires, "alert")} in {formatCount(days, "day")} to {whatIf.days.at(-1)}
        </a>
      </Fact>
      {whatIf.coverage && <CoverageFact coverage={whatIf.coverage} />}
      {labels !== null && (
        <>
          <Fact name="Confirmed frauds caught">
            {formatNumber(labels.caught)} of {formatNumber(labels.fraud)}
          </Fact>
          <Fact name="False alerts">
            {formatNumber(labels.falseAlerts)} of {formatNumber(labels.notFraud)}
          </Fact>
          <Fact name="Precision of labelled alerts">
            <LabelPrecision labels={labels} fires={whatIf.fires} />
          </Fact>
        </>
      )}
    </>
  );
}
