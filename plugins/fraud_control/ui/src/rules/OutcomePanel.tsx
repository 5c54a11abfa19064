import { Anchor, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Outcome, OutcomeSpan } from "../api/types";
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

/** What the approved rule was predicted to do, and what it did on each day since then. */
export function OutcomePanel({ ruleId }: { ruleId: number }) {
  const outcome = useQuery({
    queryKey: keys.ruleOutcome(ruleId),
    queryFn: ({ signal }) => get<Outcome>(`/rules/${ruleId}/outcome`, signal),
    refetchInterval: POLL_MS,
  });
  return (
    <QueryResult query={outcome}>
      {({ outcome: found, report }) =>
        found === null || report === null ? (
          <EmptyState>
            No prediction: the rule was not approved in the last 30 days, or its what-if had fewer than three whole
            days.
          </EmptyState>
        ) : (
          <div style={{ display: "grid", gap: "1rem" }}>
            <Text size="sm" c="dimmed">
              Approved by {found.approvedBy} <Timestamp ms={found.liveSince} withDate />.{" "}
              <a href={airflowPath(report)}>What-if over {formatCount(found.predictedDays, "whole day")}</a>.{" "}
              <Anchor component={Link} to={`/rules/${ruleId}?tab=versions`} size="sm" underline="always">
                Roll back
              </Anchor>
            </Text>
            <dl className="facts panel">
              <Fact name="Predicted alerts per day">
                {formatNumber(found.perDay)} ({formatNumber(found.low)} to {formatNumber(found.high)})
              </Fact>
              <SpanFacts name="before" span={found.before} />
              <SpanFacts name="since then" span={found.after} />
            </dl>
            <Days days={found.days} low={found.low} high={found.high} />
          </div>
        )
      }
    </QueryResult>
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
      {span.amount !== null && <Fact name={`Amount of the alerts ${name}`}>{groupDigits(span.amount)}</Fact>}
      <Fact name={`Keys with several alerts ${name}`}>{formatNumber(span.repeatedKeys)}</Fact>
    </>
  );
}

type Found = NonNullable<Outcome["outcome"]>;

function Days({ days, low, high }: Pick<Found, "days" | "low" | "high">) {
  if (days.length === 0) return <EmptyState>No whole day (UTC) since the approval yet</EmptyState>;
  return (
    <ScrollableTable
      label="Days since the approval"
      columns={["Day (UTC)", "Predicted", "Alerts", "Shadow alerts", ""]}
    >
      {[...days].reverse().map((day) => (
        <Table.Tr key={day.day}>
          <Table.Td>
            {day.day}
            {!day.whole && " so far"}
          </Table.Td>
          <Table.Td className="number">
            {formatNumber(low)} to {formatNumber(high)}
          </Table.Td>
          <Table.Td className="number">{formatNumber(day.alerts)}</Table.Td>
          <Table.Td className="number">{formatNumber(day.shadow)}</Table.Td>
          <Table.Td>{day.off && <Chip tone="warn">outside of the prediction</Chip>}</Table.Td>
        </Table.Tr>
      ))}
    </ScrollableTable>
  );
}
