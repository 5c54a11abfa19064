import { LineChart } from "@mantine/charts";
import { Button, Group, NumberInput, Progress, Slider, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { toText } from "../api/exactJson";
import { get } from "../api/http";
import type { ArchivedDays, WhatIf, WhatIfResult } from "../api/types";
import { airflowPath } from "../basePath";
import { EmptyState } from "../components/EmptyState";
import { ErrorAlert } from "../components/ErrorAlert";
import { Fact } from "../components/Fact";
import { QueryResult } from "../components/QueryResult";
import { RuleText } from "../components/RuleText";
import { formatCount, formatNumber, limitIsExpression } from "../format";
import { groupDigits } from "../ruleSentence";
import type { RuleEdit } from "./useRuleEdit";
import {
  CaughtAtLimit,
  LabelFacts,
  LabelNotes,
  labelPoint,
  limitOf,
  PrecisionChart,
  Suggestions,
} from "./WhatIfLabels";
import { CoverageFact } from "./CoverageFact";
import { OverlapTable, TopKeys, WindowTable } from "./WhatIfTables";
import { useWhatIf } from "./useWhatIf";

const ARCHIVE_POLL_MS = 10_000;

export interface WhatIfProps {
  edit: RuleEdit;
  /** A save is running. It replaces the draft, so the panel changes nothing meanwhile. */
  busy: boolean;
}

/**
 * The alerts of the edited rule on past days, also with other limits and windows. Publishes nothing. `saveDraft` saves
 * a new rule.
 */
export function WhatIfPanel({ saveDraft, edit, busy }: WhatIfProps & { saveDraft?: (() => void) | undefined }) {
  const { validation } = edit;
  const [days, setDays] = useState<number | string>(7);
  const [alertsPerDay, setAlertsPerDay] = useState<number | string>("");
  const [precision, setPrecision] = useState<number | string>("");
  const wishes = {
    ...(alertsPerDay === "" ? {} : { alertsPerDay: Number(alertsPerDay) }),
    ...(precision === "" ? {} : { precision: Number(precision) / 100 }),
  };
  const { start, id, answer } = useWhatIf();
  const archived = useQuery({
    queryKey: ["archived-days"],
    queryFn: ({ signal }) => get<ArchivedDays>("/archived-days", signal),
    // Without a day to evaluate, the panel waits for the next run of the archive job.
    refetchInterval: ({ state: { data } }) => (data?.days.length === 0 ? ARCHIVE_POLL_MS : false),
  });
  const hasNoDays = archived.data?.days.length === 0;
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
        <NumberInput
          label="Wanted alerts per day"
          description="Suggests a limit"
          inputWrapperOrder={["label", "input", "description"]}
          min={0}
          value={alertsPerDay}
          onChange={setAlertsPerDay}
          allowNegative={false}
          w="11rem"
        />
        <NumberInput
          label="Wanted precision (%)"
          description="Needs labels"
          inputWrapperOrder={["label", "input", "description"]}
          min={0}
          max={100}
          value={precision}
          onChange={setPrecision}
          allowNegative={false}
          w="11rem"
        />
        <Button
          size="sm"
          disabled={document === null || days === "" || hasNoDays}
          loading={start.isPending}
          onClick={() => document && start.mutate({ document, days: Number(days), windows: true, ...wishes })}
        >
          Run what-if
        </Button>
        {saveDraft && (
          <Button size="sm" variant="default" disabled={document === null} loading={busy} onClick={saveDraft}>
            Save as draft
          </Button>
        )}
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
        <EmptyState>No past days are archived yet. Airflow's DAG fraud_archive archives them.</EmptyState>
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

function WhatIfRun({ answer, ...panelProps }: { answer: WhatIf } & WhatIfProps) {
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

function WhatIfReport({
  result,
  report,
  ...panelProps
}: { result: WhatIfResult; report: string | null } & WhatIfProps) {
  return (
    <div style={{ display: "grid", gap: "1rem" }}>
      <dl className="facts panel">
        <Fact name="Total alerts">{formatNumber(result.fires)}</Fact>
        <Fact name="Alerts per day">{formatNumber(result.alertsPerDay)}</Fact>
        <Fact name="Keys">{formatNumber(result.keys)}</Fact>
        <Fact name="Suppressed by cool-down">{formatNumber(result.suppressed)}</Fact>
        <Fact name="Transactions evaluated">{formatNumber(result.transactions)}</Fact>
        <LabelFacts result={result} />
        <Fact name="Days">
          {result.days.length === 1 ? result.days[0] : `${result.days[0] ?? ""} to ${result.days.at(-1) ?? ""}`}
        </Fact>
        <CoverageFact coverage={result.coverage} />
      </dl>
      <LabelNotes result={result} />
      <Suggestions result={result} {...panelProps} />
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
          <a href={airflowPath(report)}>Full report</a> (evaluated in {formatNumber(result.seconds)} s)
        </Text>
      )}
    </div>
  );
}

/** The number of alerts by limit. The slider selects a limit for the rule. */
function LimitChart({ result, edit, busy }: { result: WhatIfResult } & WhatIfProps) {
  const points = result.limits.map(([limit, fires], i) => ({
    limit: Number(toText(limit)),
    exact: toText(limit),
    fires,
    ...labelPoint(result, i),
  }));
  const ownLimit = result.rule["limit"];
  const byFactor = limitIsExpression(ownLimit);
  const currentLimit = byFactor ? 1 : Number(toText(edit.document?.["limit"]));
  const name = byFactor ? "factor" : "limit";
  const nearest = points.reduce(
    (best, point, i) =>
      Math.abs(point.limit - currentLimit) < Math.abs((points[best]?.limit ?? 0) - currentLimit) ? i : best,
    0,
  );
  const [selected, setSelected] = useState(nearest);
  const point = points[selected];
  const isLogarithmic = currentLimit > 0;
  const drawn = isLogarithmic ? points.filter(({ limit }) => limit > 0) : points;
  if (!point) return null;
  return (
    <section className="panel" aria-label="Alerts by limit">
      <h2>{byFactor ? "Alerts by factor of the limit" : "Alerts by limit"}</h2>
      <div role="img" aria-label={`Alerts by limit: ${pointText(points[0])}, ${pointText(points.at(-1))}`}>
        <LineChart
          h={220}
          data={drawn}
          dataKey="limit"
          series={[{ name: "fires", label: "alerts", color: "var(--mark)" }]}
          withDots={false}
          curveType="linear"
          xAxisProps={{
            type: "number",
            scale: isLogarithmic ? "log" : "linear",
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
          thumbValueText={`${name} ${groupDigits(point.exact)}: ${formatCount(point.fires, "alert")}`}
        />
        <Text size="sm" className="number" style={{ whiteSpace: "nowrap" }} aria-live="polite">
          {name} <strong>{groupDigits(point.exact)}</strong>: {formatCount(point.fires, "alert")}
        </Text>
      </Group>
      <CaughtAtLimit result={result} position={selected} />
      <PrecisionChart points={drawn} isLogarithmic={isLogarithmic} result={result} />
      <Button
        mt="sm"
        variant="default"
        loading={busy}
        disabled={point.limit === currentLimit}
        onClick={() => edit.setMembers({ limit: limitOf(result, point.exact) })}
      >
        Use this limit
      </Button>
    </section>
  );
}

function pointText(point: { fires: number; exact: string } | undefined): string {
  return point === undefined ? "none" : `${formatNumber(point.fires)} at ${groupDigits(point.exact)}`;
}

const compactNumbers = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function formatCompact(value: number): string {
  return compactNumbers.format(value);
}
