import { Group, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { useSchema } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Today } from "../api/types";
import { Chip, StateChip } from "../components/Chip";
import { Fact } from "../components/Fact";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { Section } from "../components/Section";
import { SeverityChip } from "../components/SeverityChip";
import { Timestamp } from "../components/Timestamp";
import { EntityLink } from "../entity/EntityLink";
import { isMasked } from "../entity/entityPath";
import { fieldLabel } from "../fields";
import { formatNumber } from "../format";
import { useLiveness } from "../outage/useLiveness";
import { VerdictChip } from "../outage/VerdictChip";
import { HourChart } from "./HourChart";

const POLL_MS = 15_000;

/** The landing page: the last 24 hours of alerts and decisions, the detector, and the newest changes of rules. */
export function TodayPage() {
  usePageTitle("Today");
  const today = useQuery({
    queryKey: keys.today,
    queryFn: ({ signal }) => get<Today>("/today", signal),
    refetchInterval: POLL_MS,
  });
  return (
    <>
      <PageHeader title="Today" subtitle="Last 24 hours" />
      <DetectorLine />
      <QueryResult query={today}>{(data) => <Figures today={data} />}</QueryResult>
    </>
  );
}

/** The detector in one line: verdict, waiting payments, last batch. */
function DetectorLine() {
  const liveness = useLiveness();
  if (!liveness) return null;
  return (
    <Group gap="xs" mb="md" role="status" aria-label="Detector">
      <Text size="sm" span>
        <Link to="/detector">Detector</Link>
      </Text>
      <VerdictChip liveness={liveness} />
      <Text size="sm" c="dimmed" span>
        {formatNumber(liveness.waiting)} waiting payments
        {liveness.since !== null && (
          <>
            , last batch <Timestamp ms={liveness.since} />
          </>
        )}
      </Text>
    </Group>
  );
}

function Figures({ today }: { today: Today }) {
  const { decisions } = today;
  return (
    <div style={{ display: "grid", gap: "1rem" }}>
      {!today.complete && (
        <Text size="sm" c="dimmed" role="status">
          Older alerts of this day are missing: the server is still reading them, or there are too many.
        </Text>
      )}
      <dl className="facts panel">
        <Fact name="Alerts">
          <Link to="/alerts?shadow=false&since=24h">{formatNumber(today.alerts)}</Link>
        </Fact>
        <Fact name="Unreviewed alerts">
          <Link to="/alerts?verdict=UNREVIEWED&shadow=false&since=24h">{formatNumber(today.unreviewed)}</Link>
        </Fact>
        <Fact name="Open cases">
          <Link to="/cases">{formatNumber(today.openCases)}</Link>
        </Fact>
        <Fact name="Unassigned cases">
          <Link to="/cases?owner=unassigned">{formatNumber(today.unassignedCases)}</Link>
        </Fact>
        <Fact name="Overdue cases">
          <Link to="/cases?status=OVERDUE&sort=due">{formatNumber(today.overdueCases)}</Link>
        </Fact>
        <Fact name="Shadow alerts">
          <Link to="/alerts?shadow=true&since=24h">{formatNumber(today.shadowAlerts)}</Link>
        </Fact>
        <Fact name="Declined payments">
          <Link to="/decisions?outcome=DECLINE">{formatNumber(decisions["DECLINE"])}</Link>
        </Fact>
        <Fact name="Payments for review">
          <Link to="/decisions?outcome=REVIEW">{formatNumber(decisions["REVIEW"])}</Link>
        </Fact>
        <Fact name="Noted payments">
          <Link to="/decisions?outcome=NOTE">{formatNumber(decisions["NOTE"])}</Link>
        </Fact>
      </dl>
      {today.predicted.length > 0 && <PredictedRules rules={today.predicted} />}
      <section className="panel" aria-label="Alerts by hour">
        <h2>Alerts by hour and severity</h2>
        <HourChart hours={today.hours} />
      </section>
      <div className="sides">
        <TopRules rules={today.rules} />
        <RecentChanges changes={today.changes} />
      </div>
      <div className="sides">
        {today.keys.map((each) => (
          <TopKeys key={each.field} keys={each} />
        ))}
      </div>
    </div>
  );
}

/** The rules of the first 30 days after their approval: predicted, actual and shadow alerts of a day. */
function PredictedRules({ rules }: { rules: Today["predicted"] }) {
  return (
    <Section title="Rules approved in the last 30 days" empty={null}>
      <RowTable
        label="Rules approved in the last 30 days"
        columns={["Rule", "Day (UTC)", "Predicted", "Alerts", "Shadow alerts", ""]}
      >
        {[...rules]
          .sort((a, b) => Number(b.off) - Number(a.off))
          .map((rule) => (
            <Table.Tr key={rule.ruleId}>
              <Table.Td>
                <Link to={`/rules/${rule.ruleId}?tab=outcome`} className="wrap">
                  {rule.ruleId} {rule.name}
                </Link>
              </Table.Td>
              <Table.Td>{rule.day}</Table.Td>
              <Table.Td className="number">
                {formatNumber(rule.perDay)} ({formatNumber(rule.low)} to {formatNumber(rule.high)})
              </Table.Td>
              <Table.Td className="number">{formatNumber(rule.alerts)}</Table.Td>
              <Table.Td className="number">{formatNumber(rule.shadow)}</Table.Td>
              <Table.Td>{rule.off && <Chip tone="warn">outside of the prediction</Chip>}</Table.Td>
            </Table.Tr>
          ))}
      </RowTable>
    </Section>
  );
}

function TopRules({ rules }: { rules: Today["rules"] }) {
  return (
    <Section title="Rules with the most alerts" empty={rules.length === 0 ? "No alerts" : null}>
      <Table className="rows" aria-label="Rules with the most alerts">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Rule</Table.Th>
            <Table.Th>Severity</Table.Th>
            <Table.Th ta="right">Alerts</Table.Th>
            <Table.Th ta="right">Shadow</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rules.map((rule) => (
            <Table.Tr key={rule.ruleId}>
              <Table.Td>
                <Link to={`/rules/${rule.ruleId}`} className="wrap">
                  {rule.ruleId} {rule.name}
                </Link>
              </Table.Td>
              <Table.Td>
                <SeverityChip severity={rule.severity} />
              </Table.Td>
              <Table.Td ta="right" className="number">
                <Link to={`/alerts?ruleId=${rule.ruleId}&shadow=false&since=24h`}>{formatNumber(rule.live)}</Link>
              </Table.Td>
              <Table.Td ta="right" className="number">
                <Link to={`/alerts?ruleId=${rule.ruleId}&shadow=true&since=24h`}>{formatNumber(rule.shadow)}</Link>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Section>
  );
}

function TopKeys({ keys: { field, values } }: { keys: Today["keys"][number] }) {
  const { data } = useSchema();
  const label = fieldLabel(field, data?.fields ?? []);
  const title = `Most alerts by ${label}`;
  return (
    <Section title={title} empty={values.length === 0 ? "No alerts" : null}>
      <Table className="rows" aria-label={title}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{label}</Table.Th>
            <Table.Th ta="right">Alerts</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {values.map(({ value, alerts }) => (
            <Table.Tr key={value}>
              <Table.Td className="number wrap">
                <EntityLink field={field} value={value} />
              </Table.Td>
              <Table.Td ta="right" className="number">
                {isMasked(value) ? (
                  formatNumber(alerts)
                ) : (
                  <Link to={`/alerts?entity=${encodeURIComponent(`${field}:${value}`)}&shadow=false&since=24h`}>
                    {formatNumber(alerts)}
                  </Link>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Section>
  );
}

function RecentChanges({ changes }: { changes: Today["changes"] }) {
  return (
    <Section title="Recent changes" empty={changes.length === 0 ? "No changes" : null}>
      <ul className="plain">
        {changes.map((change) => (
          <li key={`${change.ruleId} ${change.revision}`} className="wrap">
            <Timestamp ms={change.at} />{" "}
            <Link to={`/rules/${change.ruleId}?tab=versions`}>
              {change.ruleId} {change.name}
            </Link>{" "}
            <StateChip state={change.state} />{" "}
            <span className="dimmed">
              revision {change.revision}, {change.author}
              {change.comment && `: ${change.comment}`}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
