import { LineChart } from "@mantine/charts";
import { Button, Group, NumberInput, Progress, Slider, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { numberOf, shown } from "../api/exactJson";
import { useChange } from "../api/hooks";
import { get } from "../api/http";
import type { RuleDocument, WhatIf, WhatIfResult, WhatIfStarted } from "../api/types";
import { duration, formula, keyText, number } from "../parts/format";
import { Nothing, Shown, Trouble } from "../parts/Told";
import type { Writing } from "./useRuleDraft";

const POLL_MS = 700;

interface Props {
  writing: Writing;
  /** It is being saved: what is stored then is what is written on, so nothing is changed meanwhile. */
  busy: boolean;
}

/** What the rule as it is being written would have done on past days, and with other limits. Publishes nothing. */
export function WhatIfPanel({ writing, busy }: Props) {
  const { judged } = writing;
  const [days, setDays] = useState<number | string>(7);
  const start = useChange<RuleDocument, WhatIfStarted>(
    (document) => ({ path: "/whatif", method: "POST", body: { document, days: Number(days), windows: true } }),
    { quiet: true },
  );
  const id = start.data?.body.id;
  const answer = useQuery({
    queryKey: ["whatif", id],
    queryFn: ({ signal }) => get<WhatIf>(`/whatif/${id ?? ""}`, signal),
    enabled: id !== undefined,
    // A run that the server has forgotten does not come back: after an error only people ask again.
    refetchInterval: ({ state: { data, error } }) =>
      error !== null || data?.status === "DONE" || data?.status === "FAILED" ? false : POLL_MS,
  });
  const document = judged.current?.valid ? (judged.current.document ?? writing.document) : null;
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
          disabled={document === null || days === ""}
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
          <Text size="sm" className="code">
            {formula(document)}
          </Text>
        )}
      </Group>
      {start.error && <Trouble error={start.error} />}
      {id === undefined ? (
        <Nothing>
          Evaluates the edited rule on past days: alerts, keys, and alerts by limit and window. Nothing is published.
        </Nothing>
      ) : (
        <Shown of={answer}>{(data) => <Answered answer={data} writing={writing} busy={busy} />}</Shown>
      )}
    </section>
  );
}

function Answered({ answer, ...taking }: { answer: WhatIf } & Props) {
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
  return <Found result={answer.result as unknown as WhatIfResult} report={answer.report} {...taking} />;
}

function Found({ result, report, ...taking }: { result: WhatIfResult; report: string | null } & Props) {
  const perDay = result.fires / Math.max(1, result.days.length);
  return (
    <div style={{ display: "grid", gap: "1rem" }}>
      <dl className="facts panel">
        <Fact name="Total alerts" value={number(result.fires)} />
        <Fact name="Alerts per day" value={number(perDay)} />
        <Fact name="Keys" value={number(result.keys)} />
        <Fact name="Suppressed by cool-down" value={number(result.suppressed)} />
        <Fact name="Transactions evaluated" value={number(result.transactions)} />
        <Fact
          name="Days"
          value={
            result.days.length === 1 ? (result.days[0] ?? "") : `${result.days[0] ?? ""} to ${result.days.at(-1) ?? ""}`
          }
        />
      </dl>
      <div className="sides">
        <Limits result={result} {...taking} />
        <section className="panel" aria-label="Alerts by window and key">
          <Windows result={result} />
          <Busiest result={result} />
        </section>
      </div>
      <Overlaps result={result} />
      {report && (
        <Text size="sm">
          <a href={report}>Full report</a> (evaluated in {number(result.seconds)} s)
        </Text>
      )}
    </div>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** How many alerts each limit would have given; the slider picks one for the rule. */
function Limits({ result, writing, busy }: { result: WhatIfResult } & Props) {
  const points = result.limits.map(([limit, fires]) => ({ limit: Number(shown(limit)), exact: shown(limit), fires }));
  const own = Number(shown(writing.document?.["limit"]));
  const nearest = points.reduce(
    (best, point, i) => (Math.abs(point.limit - own) < Math.abs((points[best]?.limit ?? 0) - own) ? i : best),
    0,
  );
  const [at, setAt] = useState(nearest);
  const point = points[at];
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
          curveType="monotone"
          xAxisProps={{
            type: "number",
            scale: own > 0 ? "log" : "linear",
            domain: ["dataMin", "dataMax"],
            tickFormatter: compact,
          }}
          yAxisProps={{ tickFormatter: compact, width: 44 }}
          referenceLines={[
            { x: own, label: "current", color: "var(--mantine-color-dimmed)" },
            ...(at === nearest ? [] : [{ x: point.limit, label: "selected", color: "var(--mark-second)" }]),
          ]}
          textColor="var(--mantine-color-dimmed)"
          valueFormatter={(value) => number(value)}
        />
      </div>
      <Group gap="md" mt="sm" wrap="nowrap">
        <Slider
          style={{ flex: 1 }}
          min={0}
          max={points.length - 1}
          value={at}
          onChange={setAt}
          label={null}
          thumbLabel="Limit"
          thumbValueText={`limit ${point.exact}: ${point.fires} alerts`}
        />
        <Text size="sm" className="number" style={{ whiteSpace: "nowrap" }} aria-live="polite">
          limit <strong>{point.exact}</strong>: {number(point.fires)} alerts
        </Text>
      </Group>
      <Button
        mt="sm"
        variant="default"
        loading={busy}
        disabled={point.limit === own}
        onClick={() => writing.change({ limit: numberOf(point.exact) })}
      >
        Use this limit
      </Button>
    </section>
  );
}

const compactly = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function compact(value: number): string {
  return compactly.format(value);
}

function Windows({ result }: { result: WhatIfResult }) {
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
            <Table.Td>{duration(ms)}</Table.Td>
            <Table.Td ta="right" className="number">
              {number(fires)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Busiest({ result }: { result: WhatIfResult }) {
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
          <Table.Tr key={keyText(key)}>
            <Table.Td className="wrap">{keyText(key)}</Table.Td>
            <Table.Td ta="right" className="number">
              {number(fires)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Overlaps({ result }: { result: WhatIfResult }) {
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
                {number(each.alerts)}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {number(each.both)}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </section>
  );
}
