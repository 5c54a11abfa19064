import { Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { useRuleNames } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { QualityTable } from "../api/types";
import { Chip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { Precision } from "../components/Precision";
import { QueryResult } from "../components/QueryResult";
import { Timestamp } from "../components/Timestamp";
import { formatDuration, formatNumber, formatPercent } from "../format";
import { LabelsPanel } from "./LabelsPanel";

/** The quality of each rule: alert rate, precision, and overlap with other rules. */
export default function QualityPage() {
  usePageTitle("Quality");
  const names = useRuleNames();
  const quality = useQuery({
    queryKey: keys.quality,
    queryFn: ({ signal }) => get<QualityTable>("/quality", signal),
    refetchInterval: 15_000,
  });
  return (
    <>
      <PageHeader
        title="Quality"
        subtitle="Precision: share of frauds among marked alerts, with its 95% interval from 10 marks on"
      />
      <QueryResult query={quality}>
        {({ items }) =>
          items.length === 0 ? (
            <EmptyState>No alerts yet</EmptyState>
          ) : (
            <div className="wide">
              <Table className="rows" aria-label="Quality of rules">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Rule</Table.Th>
                    <Table.Th ta="right">Alerts</Table.Th>
                    <Table.Th ta="right">Per hour</Table.Th>
                    <Table.Th ta="right">Precision</Table.Th>
                    <Table.Th>Marked</Table.Th>
                    <Table.Th>Overlapping rules</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {[...items]
                    .sort((a, b) => b.perHour - a.perHour)
                    .map((row) => (
                      <Table.Tr key={row.ruleId}>
                        <Table.Td style={{ minWidth: "10rem" }}>
                          <Link to={`/rules/${row.ruleId}`} className="wrap">
                            {row.ruleId} {names.get(row.ruleId) ?? ""}
                          </Link>{" "}
                          {row.flooding && (
                            <Chip tone="bad" title="Above the flood limit (alerts per minute)">
                              Flood
                            </Chip>
                          )}
                        </Table.Td>
                        <Table.Td ta="right" className="number">
                          <Link to={`/alerts?ruleId=${row.ruleId}`}>{formatNumber(row.alerts)}</Link>
                          <div className="dimmed small">
                            since <Timestamp ms={row.since} />
                          </div>
                        </Table.Td>
                        <Table.Td ta="right" className="number">
                          <AlertRate row={row} now={quality.dataUpdatedAt} />
                        </Table.Td>
                        <Table.Td ta="right" className="number">
                          <Precision fraud={row.fraud} notFraud={row.notFraud} />
                        </Table.Td>
                        <Table.Td>
                          <MarkCounts fraud={row.fraud} notFraud={row.notFraud} />
                        </Table.Td>
                        <Table.Td className="wrap">
                          {row.overlap.length === 0
                            ? "–"
                            : row.overlap.map(({ ruleId, share }) => (
                                <div key={ruleId}>
                                  {formatPercent(share)} with{" "}
                                  <Link to={`/rules/${ruleId}`}>{`${ruleId} ${names.get(ruleId) ?? ""}`}</Link>
                                </div>
                              ))}
                        </Table.Td>
                      </Table.Tr>
                    ))}
                </Table.Tbody>
              </Table>
            </div>
          )
        }
      </QueryResult>
      <LabelsPanel />
    </>
  );
}

const HOUR_MS = 3_600_000;

/** Alerts per hour. A rule whose first alert is under an hour old has no such rate yet. */
function AlertRate({ row, now }: { row: QualityTable["items"][number]; now: number }) {
  const age = now - row.since;
  if (age >= HOUR_MS) return formatNumber(row.perHour);
  return (
    <span className="dimmed" title="The first alert is less than an hour old">
      {formatNumber(row.alerts)} in {formatDuration(Math.max(0, age))}
    </span>
  );
}

/** The marks of a rule's alerts: a bar in two colours, and the counts. */
function MarkCounts({ fraud, notFraud }: { fraud: number; notFraud: number }) {
  const total = fraud + notFraud;
  if (total === 0) return <span style={{ color: "var(--mantine-color-dimmed)" }}>none</span>;
  return (
    <span className="number" style={{ whiteSpace: "nowrap" }}>
      <svg width={80} height={10} aria-hidden style={{ marginRight: "0.5rem" }}>
        <rect width={80} height={10} fill="var(--quiet-soft)" />
        <rect width={(80 * fraud) / total} height={10} fill="var(--bad)" />
      </svg>
      {formatNumber(fraud)} fraud, {formatNumber(notFraud)} not fraud
    </span>
  );
}
