import { LineChart } from "@mantine/charts";
import { Button, Group, Text } from "@mantine/core";
import { parseNumber, toText } from "../api/exactJson";
import type { LabelFigures, LimitSuggestion, WhatIfResult } from "../api/types";
import { Fact } from "../components/Fact";
import { SERIES_ORDER } from "../components/chartLegend";
import { LabelPrecision } from "../components/Precision";
import { formatCount, formatNumber, limitIsExpression } from "../format";
import { groupDigits } from "../ruleSentence";
import type { RuleEdit } from "./useRuleEdit";

interface Props {
  result: WhatIfResult;
}

const of = (part: number, whole: number) => `${formatNumber(part)} of ${formatNumber(whole)}`;
const daysText = ({ coverage }: WhatIfResult) => formatCount(coverage.daysWithData, "day");

/** The caught frauds and false alerts among the labelled payments; nothing without labels. */
export function LabelFacts({ result }: Props) {
  const labels = result.labels ?? null;
  if (labels === null) return null;
  const labelled = labels.caught + labels.falseAlerts;
  return (
    <>
      <Fact name="Confirmed frauds caught">{of(labels.caught, labels.fraud)}</Fact>
      <Fact name="False alerts">{of(labels.falseAlerts, labels.notFraud)}</Fact>
      <Fact name="Precision of labelled alerts">
        <LabelPrecision labels={labels} fires={result.fires} />
      </Fact>
      <Fact name="Alerts without a label">{of(result.fires - labelled, result.fires)}</Fact>
    </>
  );
}

/** The base of the figures about labels, and the labels that do not enter them. */
export function LabelNotes({ result }: Props) {
  const labels = result.labels ?? null;
  if (labels === null) return null;
  const skipped = Object.values(labels.skipped).reduce((sum, count) => sum + count, 0);
  return (
    <Text size="sm" c="dimmed">
      {`Labels of the archived ${daysText(result)}: ${sourcesText(labels.sources)}.`}
      {labels.outside > 0 && ` ${formatNumber(labels.outside)} labels outside these days or not archived yet.`}
      {labels.suppressed > 0 &&
        ` Frauds without an alert because of the cool-down: ${formatNumber(labels.suppressed)}.`}
      {skipped > 0 && ` Labels skipped or replaced by a later one: ${formatNumber(skipped)}.`}
    </Text>
  );
}

const SOURCES = { mark: "marks", file: "files", topic: "the topic" } as const;

function sourcesText(sources: LabelFigures["sources"]): string {
  const counts = (Object.keys(SOURCES) as (keyof typeof SOURCES)[])
    .filter((source) => (sources?.[source] ?? 0) > 0)
    .map((source) => `${formatNumber(sources?.[source] ?? 0)} from ${SOURCES[source]}`);
  return counts.length > 0 ? counts.join(", ") : "none";
}

const WISHES: Record<LimitSuggestion["wanted"], (target: number) => string> = {
  ALERTS_PER_DAY: (target) => `At most ${formatNumber(target)} alerts per day`,
  PRECISION: (target) => `Precision of at least ${formatNumber(target * 100)} % of labelled alerts`,
  PRECISION_OF_ALL: (target) =>
    `Precision of at least ${formatNumber(target * 100)} % if alerts without a label are false`,
};

/** A limit of the result as the member of the rule. If the rule's limit is an expression, it is a factor of it. */
export function limitOf(result: WhatIfResult, limit: string): unknown {
  const own = result.rule["limit"];
  return limitIsExpression(own) ? `${limit} * (${own})` : parseNumber(limit);
}

/** The suggested limits, each with a button that uses it. */
export function Suggestions({ result, edit, busy }: Props & { edit: RuleEdit; busy: boolean }) {
  const suggestions = result.suggestions ?? [];
  if (suggestions.length === 0) return null;
  return (
    <section className="panel" aria-label="Suggested limits">
      <h2>Suggested limits</h2>
      {suggestions.map((each) => (
        <Group key={each.wanted} gap="md" mt="xs">
          <Text size="sm" style={{ flex: "1 1 16rem" }}>
            {WISHES[each.wanted](each.target)}: {suggestionText(each, result)}
          </Text>
          {each.limit !== null && (
            <Button
              variant="default"
              loading={busy}
              onClick={() => edit.setMembers({ limit: limitOf(result, toText(each.limit)) })}
            >
              Use limit {groupDigits(toText(each.limit))}
            </Button>
          )}
        </Group>
      ))}
    </section>
  );
}

function suggestionText({ limit, alertsPerDay, caught, falseAlerts }: LimitSuggestion, result: WhatIfResult): string {
  if (limit === null) return "no limit";
  const rate = `limit ${groupDigits(toText(limit))}, ${formatNumber(alertsPerDay)} alerts per day`;
  const labels = result.labels ?? null;
  if (labels === null) return rate;
  return `${rate}, ${caughtText(caught ?? 0, falseAlerts ?? 0, labels)}`;
}

function caughtText(caught: number, falseAlerts: number, labels: { fraud: number; notFraud: number }): string {
  return `catches ${of(caught, labels.fraud)} confirmed frauds, ${of(falseAlerts, labels.notFraud)} false alerts`;
}

/** The caught frauds and false alerts with the selected limit. */
export function CaughtAtLimit({ result, position }: Props & { position: number }) {
  const labels = result.labels ?? null;
  const point = labels?.byLimit[position];
  if (labels === null || point === undefined) return null;
  return (
    <Text size="sm" className="number">
      {caughtText(point[0], point[1], labels)}
    </Text>
  );
}

/** Precision and recall at a limit of the result in percent; empty where a share has no base.
 *
 * If the labels name frauds only, the precision is a lower bound: the share among all alerts. */
export function labelPoint(result: WhatIfResult, position: number): { precision?: number; recall?: number } {
  const labels = result.labels ?? null;
  const point = labels?.byLimit[position];
  if (labels === null || point === undefined) return {};
  const [caught, wrong] = point;
  const base = labels.notFraud > 0 ? caught + wrong : (result.limits[position]?.[1] ?? 0);
  return {
    ...(base > 0 ? { precision: (100 * caught) / base } : {}),
    ...(labels.fraud > 0 ? { recall: (100 * caught) / labels.fraud } : {}),
  };
}

/** Precision and recall by limit; nothing without labels. */
export function PrecisionChart({
  points,
  isLogarithmic,
  result,
}: Props & { points: { limit: number; precision?: number; recall?: number }[]; isLogarithmic: boolean }) {
  const labels = result.labels ?? null;
  if (labels === null || labels.fraud === 0) return null;
  return (
    <div
      role="img"
      aria-label={`Precision and recall by limit, of ${labels.fraud} confirmed frauds and ${labels.notFraud} false alerts`}
    >
      <LineChart
        h={180}
        mt="sm"
        data={points}
        dataKey="limit"
        series={[
          { name: "recall", label: "recall (%)", color: "var(--mark)" },
          {
            name: "precision",
            label: labels.notFraud > 0 ? "precision of labelled alerts (%)" : "precision, at least (%)",
            color: "var(--mark-second)",
          },
        ]}
        withDots={false}
        withLegend
        legendProps={SERIES_ORDER}
        curveType="linear"
        xAxisProps={{ type: "number", scale: isLogarithmic ? "log" : "linear", domain: ["dataMin", "dataMax"] }}
        yAxisProps={{ domain: [0, 100], width: 44 }}
        textColor="var(--mantine-color-dimmed)"
        valueFormatter={(value) => formatNumber(value)}
      />
    </div>
  );
}
