import { Button, Group, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useApiMutation } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Me, Outcome, OutcomeSpan, RuleDetail } from "../api/types";
import { airflowPath } from "../basePath";
import { Chip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { Fact } from "../components/Fact";
import { Precision } from "../components/Precision";
import { QueryResult } from "../components/QueryResult";
import { ScrollableTable } from "../components/ScrollableTable";
import { Timestamp } from "../components/Timestamp";
import { formatCount, formatNumber } from "../format";
import { groupDigits } from "../ruleSentence";

const POLL_MS = 60_000;

interface Props {
  rule: RuleDetail;
  me: Me;
}

/** What the last change of the rule was predicted to do, and what the rule did before and after it. */
export function OutcomePanel({ rule, me }: Props) {
  const outcome = useQuery({
    queryKey: keys.ruleOutcome(rule.ruleId),
    queryFn: ({ signal }) => get<Outcome>(`/rules/${rule.ruleId}/outcome`, signal),
    refetchInterval: POLL_MS,
  });
  return (
    <QueryResult query={outcome}>
      {({ outcome: found, report }) =>
        found === null ? (
          <EmptyState>The rule is not active, or did not change in the last 30 days.</EmptyState>
        ) : (
          <div style={{ display: "grid", gap: "1rem" }}>
            <Group gap="sm">
              <Text size="sm" c="dimmed" span>
                {found.approvedBy === null ? "Active since " : `Approved by ${found.approvedBy} `}
                <Timestamp ms={found.liveSince} withDate />
              </Text>
              {found.prediction && report !== null && (
                <a href={airflowPath(report)}>
                  What-if over {formatCount(found.prediction.predictedDays, "whole day")}
                </a>
              )}
              {found.previousRevision !== null && <Rollback rule={rule} me={me} revision={found.previousRevision} />}
            </Group>
            <dl className="facts panel">
              <Predicted prediction={found.prediction} />
              {found.shadowPerDay !== null && (
                <Fact name="Shadow alerts per day before">{formatNumber(found.shadowPerDay)}</Fact>
              )}
              <SpanFacts name="before" span={found.before} />
              <SpanFacts name="since then" span={found.after} />
            </dl>
            <Days days={found.days} prediction={found.prediction} />
            {found.prediction && found.prediction.limits.length > 0 && <Limits limits={found.prediction.limits} />}
          </div>
        )
      }
    </QueryResult>
  );
}

/** Requests the content that was active before, or restores it if it needs no approval. */
function Rollback({ rule, me, revision }: Props & { revision: number }) {
  const restore = useApiMutation<null, RuleDetail>(
    () => ({
      path: `/rules/${rule.ruleId}/rollback`,
      method: "POST",
      body: { revision, comment: `Rollback of revision ${rule.revision}, after its outcome` },
      revision: rule.revision,
    }),
    {
      successMessage: ({ status, body }) =>
        status === 202
          ? "Requested: another user must approve"
          : `Revision ${revision} restored as revision ${body.revision}`,
      invalidates: [keys.approvals, keys.versions(rule.ruleId), keys.ruleList, keys.ruleOutcome(rule.ruleId)],
      updates: keys.rule(rule.ruleId),
    },
  );
  if (!me.can.includes("request")) return null;
  return (
    <Button
      variant="default"
      size="xs"
      loading={restore.isPending}
      disabled={rule.pendingApproval !== null}
      onClick={() => restore.mutate(null)}
    >
      Roll back to revision {revision}
    </Button>
  );
}

function Predicted({ prediction }: Pick<Found, "prediction">) {
  return (
    <Fact name="Predicted alerts per day">
      {prediction === null ? (
        "none: its what-if has fewer than three whole days"
      ) : (
        <>
          {formatNumber(prediction.perDay)} ({formatNumber(prediction.low)} to {formatNumber(prediction.high)})
        </>
      )}
    </Fact>
  );
}

/** The predicted alerts of a day with other limits. */
function Limits({ limits }: Pick<NonNullable<Found["prediction"]>, "limits">) {
  return (
    <ScrollableTable label="Predicted alerts per day by limit" columns={["Limit", "Alerts per day", "90% interval"]}>
      {limits.map((each) => (
        <Table.Tr key={each.limit}>
          <Table.Td className="number">{groupDigits(each.limit)}</Table.Td>
          <Table.Td className="number">{formatNumber(each.perDay)}</Table.Td>
          <Table.Td className="number">
            {formatNumber(each.low)} to {formatNumber(each.high)}
          </Table.Td>
        </Table.Tr>
      ))}
    </ScrollableTable>
  );
}

function SpanFacts({ name, span }: { name: string; span: OutcomeSpan }) {
  return (
    <>
      <Fact name={`Alerts per day ${name}`}>
        {formatNumber(span.alertsPerDay)} ({formatCount(span.alerts, "alert")})
      </Fact>
      {span.alerts > 0 && (
        <Fact name={`Precision ${name}`}>
          <Precision fraud={span.fraud} notFraud={span.notFraud} of={span.alerts} />
        </Fact>
      )}
      {span.amount !== null && <Fact name={`Amount stopped ${name}`}>{groupDigits(span.amount)}</Fact>}
      <Fact name={`Customers met twice ${name}`}>{formatNumber(span.repeatedKeys)}</Fact>
    </>
  );
}

type Found = NonNullable<Outcome["outcome"]>;

function Days({ days, prediction }: Pick<Found, "days" | "prediction">) {
  if (days.length === 0) return <EmptyState>No whole day (UTC) since the change yet</EmptyState>;
  return (
    <ScrollableTable label="Days since the change" columns={["Day (UTC)", "Predicted", "Alerts", "Shadow alerts", ""]}>
      {[...days].reverse().map((day) => (
        <Table.Tr key={day.day}>
          <Table.Td>
            {day.day}
            {!day.whole && " so far"}
          </Table.Td>
          <Table.Td className="number">
            {prediction ? `${formatNumber(prediction.low)} to ${formatNumber(prediction.high)}` : "–"}
          </Table.Td>
          <Table.Td className="number">{formatNumber(day.alerts)}</Table.Td>
          <Table.Td className="number">{formatNumber(day.shadow)}</Table.Td>
          <Table.Td>{day.off && <Chip tone="warn">outside of the prediction</Chip>}</Table.Td>
        </Table.Tr>
      ))}
    </ScrollableTable>
  );
}
