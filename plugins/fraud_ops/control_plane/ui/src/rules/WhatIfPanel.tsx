import { LineChart } from "@mantine/charts";
import { Button, Group, NumberInput, Progress, Slider, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { parseNumber, toText } from "../api/exactJson";
import { useApiMutation } from "../api/hooks";
import { get } from "../api/http";
import type { ArchivedDays, RuleDocument, WhatIf, WhatIfResult, WhatIfStarted } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { ErrorAlert } from "../components/ErrorAlert";
import { Fact } from "../components/Fact";
import { QueryResult } from "../components/QueryResult";
import { RuleText } from "../components/RuleText";
import { Timestamp } from "../components/Timestamp";
import { formatDuration, formatKey, formatNumber } from "../format";
import type { RuleEdit } from "./useRuleEdit";

const POLL_MS = 700;
const ARCHIVE_POLL_MS = 10_000;

interface Props {
  edit: RuleEdit;
  /** A save is running. It replaces the draft, so the panel changes nothing meanwhile. */
  busy: boolean;
}

/** The alerts of the edited rule on past days, also with other limits and windows. Publishes nothing. */
export function WhatIfPanel({ edit, busy }: Props) {
  const { validation } = edit;
  const [days, setDays] = useState<number | string>(7);
  const start = useApiMutation<RuleDocument, WhatIfStarted>(
    (document) => ({ path: "/whatif", method: "POST", body: { document, days: Number(days), windows: true } }),
    { quiet: true },
  );
  const id = start.data?.body.id;
  const answer = useQuery({
    queryKey: ["whatif", id],
    queryFn: ({ signal }) => get<WhatIf>(`/whatif/${id ?? ""}`, signal),
    enabled: id !== undefined,
    // The server does not restore a run that it has forgotten, so polling stops after an error.
    refetchInterval: ({ state: { data, error } }) =>
      error !== null || data?.status === "DONE" || data?.status === "FAILED" ? false : POLL_MS,
  });
  const archived = useQuery({
    queryKey: ["archived-days"],
    queryFn: ({ signal }) => get<ArchivedDays>("/archived-days", signal),
    // Without a day to evaluate, the panel waits for the next run of the archive job.
    refetchInterval: ({ state: { data } }) => (data?.days.length === 0 ? ARCHIVE_POLL_MS : false),
  });
  const hasNoDays = archived.data?.days.length === 0;
  const nextRun = archived.data?.nextRun ?? null;
  const document = validation.current?.valid ? (validation.current.document ?? edit.document) : null;
  return (
    <section aria-label="What-if">
      <Group align="flex-end" gap="xs" mb="md">
        <NumberInput
          label="Past days"
          min={1}
          max={90}
          value={days}
          onChange={setDays}
          allowDecimal={false}
          allowNegative={false}
          w="7rem"
        />
        <Button
          size="sm"
          disabled={document === null || days === "" || hasNoDays}
          loading={start.isPending}
          onClick={() => document && start.mutate(document)}
        >
          Run what-if
        </Button>
        {document === null ? (
          <Text size="sm" c="dimmed">
            Correct the rule first: it is not valid.
          </Text>
        ) : (
          <Text size="sm" style={{ flex: "1 1 20rem" }}>
            <RuleText rule={document} />
          </Text>
        )}
      </Group>
      {start.error && <ErrorAlert error={start.error} />}
      {hasNoDays ? (
        <EmptyState>
          No past days are archived yet.{" "}
          {nextRun !== null && (
            <>
              Next archive run: <Timestamp ms={nextRun} />
            </>
          )}
        </EmptyState>
      ) : id === undefined ? (
        <EmptyState>
          Evaluates the edited rule on past days: alerts, keys, and alerts by limit and window. Nothing is published.
        </EmptyState>
      ) : (
        <QueryResult query={answer}>{(data) => <WhatIfRun answer={data} edit={edit} busy={busy} />}</QueryResult>
      )}
    </section>
  );
}

function WhatIfRun({ answer, ...panelProps }: { answer: WhatIf } & Props) {
  if (answer.status === "FAILED") {
    return (
      <div className="panel" role="alert">
        What-if failed{answer.said ? `: ${answer.said}` : ""}
      </div>
    );
  }
  if (answer.status !== "DONE" || answer.result === null) {
    return (
      <div className="panel" role="status">
        <Text size="sm">{answer.status === "WAITING" ? "Queued" : "Reading past days"}</Text>
        <Progress value={Math.max(2, answer.progress * 100)} mt="xs" aria-label="Progress" animated />
      </div>
    );
  }
  return <WhatIfReport result={answer.result as unknown as WhatIfResult} report={answer.report} {...panelProps} />;
}

function WhatIfReport({ result, report, ...panelProps }: { result: WhatIfResult; report: string | null } & Props) {
  const perDay = result.fires / Math.max(1, result.days.length);
  return (
    <div style={{ display: "grid", gap: "1rem" }}>
      <dl className="facts panel">
        <Fact name="Total alerts">{formatNumber(result.fires)}</Fact>
        <Fact name="Alerts per day">{formatNumber(perDay)}</Fact>
        <Fact name="Keys">{formatNumber(result.keys)}</Fact>
        <Fact name="Suppressed by cool-down">{formatNumber(result.suppressed)}</Fact>
        <Fact name="Transactions evaluated">{formatNumber(result.transactions)}</Fact>
        <Fact name="Days">
          {result.days.length === 1 ? result.days[0] : `${result.days[0] ?? ""} to ${result.days.at(-1) ?? ""}`}
        </Fact>
      </dl>
      <div className="sides">
        <LimitChart result={result} {...panelProps} />
        <section className="panel" aria-label="Alerts by window and key">
          <WindowTable result={result} />
          <TopKeys result={result} />
        </section>
      </div>
      <OverlapTable result={result} />
      {report && (
        <Text size="sm">
          <a href={report}>Full report</a> (evaluated in {formatNumber(result.seconds)} s)
        </Text>
      )}
    </div>
  );
}

/** The number of alerts by limit. The slider selects a limit for the rule. */
function LimitChart({ result, edit, busy }: { result: WhatIfResult } & Props) {
  const points = result.limits.map(([limit, fires]) => ({ limit: Number(toText(limit)), exact: toText(limit), fires }));
  const currentLimit = Number(toText(edit.document?.["limit"]));
  const nearest = points.reduce(
    (best, point, i) =>
      Math.abs(point.limit - currentLimit) < Math.abs((points[best]?.limit ?? 0) - currentLimit) ? i : best,
    0,
  );
  const [selected, setSelected] = useState(nearest);
  const point = points[selected];
  if (!point) return null;
  return (
    <section className="panel" aria-label="Alerts by limit">
      <h2>Alerts by limit</h2>
      <div
        role="img"
        aria-label={`Alerts by limit: ${points[0]?.fires ?? 0} at ${points[0]?.exact ?? ""}, ${points.at(-1)?.fires ?? 0} at ${points.at(-1)?.exact ?? ""}`}
      >
        <LineChart
          h={220}
          data={points}
          dataKey="limit"
          series={[{ name: "fires", label: "alerts", color: "var(--mark)" }]}
          withDots={false}
          curveType="linear"
          xAxisProps={{
            type: "number",
            scale: currentLimit > 0 ? "log" : "linear",
            domain: ["dataMin", "dataMax"],
            tickFormatter: formatCompact,
          }}
          yAxisProps={{ tickFormatter: formatCompact, width: 44 }}
          referenceLines={[
            { x: currentLimit, label: "current", color: "var(--mantine-color-dimmed)" },
            ...(selected === nearest ? [] : [{ x: point.limit, label: "selected", color: "var(--mark-second)" }]),
          ]}
          textColor="var(--mantine-color-dimmed)"
          valueFormatter={(value) => formatNumber(value)}
        />
      </div>
      <Group gap="md" mt="sm" wrap="nowrap">
        <Slider
          style={{ flex: 1 }}
          min={0}
          max={points.length - 1}
          value={selected}
          onChange={setSelected}
          label={null}
          thumbLabel="Limit"
          thumbValueText={`limit ${point.exact}: ${point.fires} alerts`}
        />
        <Text size="sm" className="number" style={{ whiteSpace: "nowrap" }} aria-live="polite">
          limit <strong>{point.exact}</strong>: {formatNumber(point.fires)} alerts
        </Text>
      </Group>
      <Button
        mt="sm"
        variant="default"
        loading={busy}
        disabled={point.limit === currentLimit}
        onClick={() => edit.setMembers({ limit: parseNumber(point.exact) })}
      >
        Use this limit
      </Button>
    </section>
  );
}

const compactNumbers = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function formatCompact(value: number): string {
  return compactNumbers.format(value);
}

function WindowTable({ result }: { result: WhatIfResult }) {
  if (result.windowsMs.length === 0) return null;
  return (
    <Table aria-label="Alerts by window" mb="sm">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Window</Table.Th>
          <Table.Th ta="right">Alerts</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {result.windowsMs.map(([ms, fires]) => (
          <Table.Tr key={ms}>
            <Table.Td>{formatDuration(ms)}</Table.Td>
            <Table.Td ta="right" className="number">
              {formatNumber(fires)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function TopKeys({ result }: { result: WhatIfResult }) {
  if (result.busiest.length === 0) return <Text size="sm">No alerts for any key</Text>;
  return (
    <Table aria-label="Keys with the most alerts">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Key</Table.Th>
          <Table.Th ta="right">Alerts</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {result.busiest.slice(0, 6).map(([key, fires]) => (
          <Table.Tr key={formatKey(key)}>
            <Table.Td className="wrap">{formatKey(key)}</Table.Td>
            <Table.Td ta="right" className="number">
              {formatNumber(fires)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function OverlapTable({ result }: { result: WhatIfResult }) {
  const overlapping = result.overlap.filter((each) => each.both > 0);
  if (overlapping.length === 0) return null;
  return (
    <section className="panel wide" aria-label="Overlap">
      <Table aria-label="Overlap with rules in force">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Rule in force</Table.Th>
            <Table.Th ta="right">Alerts</Table.Th>
            <Table.Th ta="right">Same transaction</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {overlapping.map((each) => (
            <Table.Tr key={each.ruleId}>
              <Table.Td className="wrap">
                {each.ruleId} {each.name}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {formatNumber(each.alerts)}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {formatNumber(each.both)}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </section>
  );
}
