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
import { RowTable } from "../components/RowTable";
import { Timestamp } from "../components/Timestamp";
import { formatDuration, formatNumber, formatPercent } from "../format";
import { groupDigits } from "../ruleSentence";
import { LabelsPanel } from "./LabelsPanel";

/** The quality of the rules by labels, how often they fire, and the labels themselves. */
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
        subtitle="Precision: share of frauds among labelled payments, with its 95% interval from 10 labels on"
      />
      <QueryResult query={quality}>
        {({ items, labels }) => (
          <>
            <ByLabels labels={labels} names={names} />
            <Fires items={items} names={names} now={quality.dataUpdatedAt} />
          </>
        )}
      </QueryResult>
      <LabelsPanel />
    </>
  );
}

type Names = ReadonlyMap<number, string>;

/** The labelled payments of each rule, and of the rules that alert for the same payments. */
function ByLabels({ labels, names }: { labels: QualityTable["labels"]; names: Names }) {
  if (labels.rules.length === 0) return null;
  return (
    <>
      <p className="dimmed small">
        Payments with alerts since <Timestamp ms={labels.since} withDate />. Recall: share of{" "}
        {formatNumber(labels.frauds)} labelled frauds, those without any alert included. False alerts per day: alerts
        per day of the last week × (not fraud + 1) / (labelled + 2), so half of the alerts of a rule without labels.
      </p>
      <section className="panel" aria-label="Rules by labels">
        <h2>Rules by labels</h2>
        <RowTable label="Rules by labels" columns={["Rule", "False alerts per day", ...LABELLED]}>
          {labels.rules.map((row) => (
            <Table.Tr key={row.ruleId}>
              <Table.Td style={{ minWidth: "10rem" }}>
                <RuleLink id={row.ruleId} names={names} />
              </Table.Td>
              <Table.Td className="number">
                {formatNumber(row.falseAlertsPerDay)} of {formatNumber(row.alertsPerDay)}
              </Table.Td>
              <LabelledCells row={row} />
            </Table.Tr>
          ))}
        </RowTable>
      </section>
      <section className="panel" aria-label="Combinations of rules by labels">
        <h2>Combinations of rules by labels</h2>
        <RowTable label="Combinations of rules by labels" columns={["Exactly these rules", ...LABELLED]}>
          {labels.combinations.map((row) => (
            <Table.Tr key={row.ruleIds.join()}>
              <Table.Td style={{ minWidth: "10rem" }}>
                {row.ruleIds.map((id) => (
                  <div key={id}>
                    <RuleLink id={id} names={names} />
                  </div>
                ))}
              </Table.Td>
              <LabelledCells row={row} />
            </Table.Tr>
          ))}
        </RowTable>
      </section>
    </>
  );
}

const LABELLED = ["Payments", "Fraud", "Not fraud", "Precision", "Recall", "Amount", "Amount of frauds"];

type Labelled = QualityTable["labels"]["combinations"][number] | QualityTable["labels"]["rules"][number];

function LabelledCells({ row }: { row: Labelled }) {
  return (
    <>
      <Table.Td className="number">{formatNumber(row.payments)}</Table.Td>
      <Table.Td className="number">{formatNumber(row.fraud)}</Table.Td>
      <Table.Td className="number">{formatNumber(row.notFraud)}</Table.Td>
      <Table.Td>
        <Precision fraud={row.fraud} notFraud={row.notFraud} of={row.payments} />
      </Table.Td>
      <Table.Td className="number">{row.recall === null ? "–" : formatPercent(row.recall)}</Table.Td>
      <Table.Td className="number">{row.amount === null ? "–" : groupDigits(row.amount)}</Table.Td>
      <Table.Td className="number">{row.fraudAmount === null ? "–" : groupDigits(row.fraudAmount)}</Table.Td>
    </>
  );
}

function RuleLink({ id, names }: { id: number; names: Names }) {
  return (
    <Link to={`/rules/${id}`} className="wrap">
      {id} {names.get(id) ?? ""}
    </Link>
  );
}

interface FiresProps {
  items: QualityTable["items"];
  names: Names;
  now: number;
}

/** The alert rate of each rule, and its overlap with other rules, over the alerts in memory. */
function Fires({ items, names, now }: FiresProps) {
  if (items.length === 0) return <EmptyState>No alerts yet</EmptyState>;
  return (
    <RowTable label="Quality of rules" columns={["Rule", "Alerts", "Per hour", "Overlapping rules"]}>
      {[...items]
        .sort((a, b) => b.perHour - a.perHour)
        .map((row) => (
          <Table.Tr key={row.ruleId}>
            <Table.Td style={{ minWidth: "10rem" }}>
              <RuleLink id={row.ruleId} names={names} />{" "}
              {row.flooding && (
                <Chip tone="bad" title="Above the flood limit (alerts per minute)">
                  Flood
                </Chip>
              )}
            </Table.Td>
            <Table.Td className="number">
              <Link to={`/alerts?ruleId=${row.ruleId}`}>{formatNumber(row.alerts)}</Link>
              <div className="dimmed small">
                since <Timestamp ms={row.since} />
              </div>
            </Table.Td>
            <Table.Td className="number">
              <AlertRate row={row} now={now} />
            </Table.Td>
            <Table.Td className="wrap">
              {row.overlap.length === 0
                ? "–"
                : row.overlap.map(({ ruleId, share }) => (
                    <div key={ruleId}>
                      {formatPercent(share)} with <RuleLink id={ruleId} names={names} />
                    </div>
                  ))}
            </Table.Td>
          </Table.Tr>
        ))}
    </RowTable>
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
