import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { RuleHealth } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { Fact } from "../components/Fact";
import { QueryResult } from "../components/QueryResult";
import { Timestamp } from "../components/Timestamp";
import { DataFaults } from "../data/DataFaults";
import { formatNumber } from "../format";

const POLL_MS = 15_000;

/** The matches and alerts of a rule in the last eight days. */
export function RuleHealthPanel({ ruleId }: { ruleId: number }) {
  const health = useQuery({
    queryKey: keys.ruleHealth(ruleId),
    queryFn: ({ signal }) => get<RuleHealth>(`/data-health/rules/${ruleId}`, signal),
    refetchInterval: POLL_MS,
  });
  return (
    <QueryResult query={health}>
      {(data) =>
        data.since === null ? (
          <EmptyState>The detector has not evaluated this rule in the last eight days.</EmptyState>
        ) : (
          <div style={{ display: "grid", gap: "1rem" }}>
            <DataFaults faults={data.faults} />
            <Text size="sm" c="dimmed">
              Since <Timestamp ms={data.since} withDate />
            </Text>
            <dl className="facts panel">
              <Fact name="Payments">{formatNumber(data.rows)}</Fact>
              <Fact name="Matches of the filter">{formatNumber(data.passed)}</Fact>
              <Fact name="Matches of when">{formatNumber(data.held)}</Fact>
              <Fact name="Alerts">{formatNumber(data.alerts)}</Fact>
              <Fact name="Last alert">{data.lastAlert === null ? "–" : <Timestamp ms={data.lastAlert} />}</Fact>
              <Fact name="Keys in state">{formatNumber(data.keys)}</Fact>
            </dl>
          </div>
        )
      }
    </QueryResult>
  );
}
