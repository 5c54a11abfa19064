import { Progress, Table, Text } from "@mantine/core";
import { Link } from "react-router";
import { toText } from "../api/exactJson";
import type { Entity } from "../api/types";
import { Chip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { LongTable } from "../components/LongTable";
import { Timestamp } from "../components/Timestamp";
import { comparisonText, formatDuration, formatKey, formatPercent, limitIsExpression } from "../format";
import { fieldLabel, type Fields } from "../fields";
import { formatMeasure, withUnit } from "../measure";
import { EntityLink } from "./EntityLink";

interface Props {
  entity: Entity;
  fields: Fields;
}

type Aggregate = Entity["aggregates"][number];

const COLUMNS = ["Rule", "Key", "Value", "Limit", "Of limit", "Window", "Last evaluated payment"];

/** Each rule's aggregate at the last payment that it evaluated, and the rules that need the payments of others. */
export function RuleAggregates({ entity, fields }: Props) {
  return (
    <section className="panel" aria-label="Rules" style={{ marginTop: "1rem" }}>
      <h2>Rules</h2>
      {entity.aggregates.length === 0 ? (
        <EmptyState>No rule with this ID in its key has evaluated these payments</EmptyState>
      ) : (
        <LongTable label="Rules" columns={COLUMNS} items={entity.aggregates}>
          {(each) => (
            <AggregateRow
              key={`${each.ruleId} ${formatKey(each.key, fields)}`}
              aggregate={each}
              field={entity.field}
              fields={fields}
            />
          )}
        </LongTable>
      )}
      <OtherRules entity={entity} fields={fields} />
    </section>
  );
}

function AggregateRow({ aggregate, field, fields }: { aggregate: Aggregate; field: string; fields: Fields }) {
  const { share } = aggregate;
  const measure = measureOf(aggregate.unit, fields);
  return (
    <Table.Tr>
      <Table.Td className="wrap" style={{ minWidth: "18rem" }}>
        <Link to={`/rules/${aggregate.ruleId}`}>
          {aggregate.ruleId} {aggregate.name}
        </Link>{" "}
        {aggregate.state === "SHADOW" && <Chip tone="shadow">Shadow</Chip>}
        {aggregate.outcome === "alert" && <Chip tone="bad">Alert</Chip>}
        {aggregate.outcome === "suppressed" && <Chip>Suppressed</Chip>}
        <Text size="xs" c="var(--mantine-color-text)">
          {aggregate.says}
        </Text>
      </Table.Td>
      <Table.Td className="number">
        {Object.entries(aggregate.key)
          .filter(([name]) => name !== field)
          .map(([name, value]) => (
            <EntityLink key={name} field={name} value={toText(value)}>
              {fieldLabel(name, fields)} {toText(value)}
            </EntityLink>
          ))}
      </Table.Td>
      <Table.Td className="number">{withUnit(aggregate.value, measure)}</Table.Td>
      <Table.Td className="number">{boundText(aggregate, measure)}</Table.Td>
      <Table.Td style={{ minWidth: "7rem" }}>
        {share === null ? (
          "–"
        ) : (
          <>
            {formatPercent(share)}
            <Progress value={Math.min(100, share * 100)} color={share >= 1 ? "red.9" : "gray.7"} aria-hidden />
          </>
        )}
      </Table.Td>
      <Table.Td>{aggregate.windowCalendar || formatDuration(aggregate.windowMs)}</Table.Td>
      <Table.Td>
        <Timestamp ms={aggregate.eventTime} />
        {isOver(aggregate) && " (the window has passed)"}
      </Table.Td>
    </Table.Tr>
  );
}

type Measure = Pick<Fields[number], "scale" | "unit">;

/** The decimals of a unit: those of the decimal field that has it. */
function measureOf(unit: string, fields: Fields): Measure {
  return { unit, scale: fields.find((field) => field.unit === unit && unit !== "")?.scale ?? null };
}

/** What the value is compared with: > 40 EUR, or > 41.5 + 3 deviations (54.2 EUR). */
function boundText({ operator, limit, limitIs, baseline, bound }: Aggregate, measure: Measure): string {
  if (limitIsExpression(limit))
    return bound === null ? "No limit" : `${operator} ${withUnit(bound, measure)} (${limit})`;
  if (limitIs === "VALUE") return `${operator} ${withUnit(limit, measure)}`;
  if (baseline === null || bound === null) return "Too few payments before";
  const rule = { limitOperatorType: operator, limit, baseline: { deviations: limitIs === "DEVIATIONS" } };
  return `${comparisonText(rule, { value: formatMeasure(baseline, measure) })} (${withUnit(bound, measure)})`;
}

function isOver({ windowOverMs }: Aggregate): boolean {
  return Date.now() >= windowOverMs;
}

function OtherRules({ entity, fields }: Props) {
  if (entity.otherRules.length === 0) return null;
  return (
    <p>
      Rules with other keys need the payments of other IDs too, so they have no value here:{" "}
      {entity.otherRules.map((rule, position) => (
        <span key={rule.ruleId}>
          {position > 0 && ", "}
          <Link to={`/rules/${rule.ruleId}`}>
            {rule.ruleId} {rule.name}
          </Link>{" "}
          ({rule.fields.map((name) => fieldLabel(name, fields)).join(", ") || "all payments"})
        </span>
      ))}
    </p>
  );
}
