import { BarChart } from "@mantine/charts";
import { Alert as Notice, Button, Select, Table } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { ProofIcon } from "../alerts/ProofLink";
import { toText } from "../api/exactJson";
import { entityQuery, useCan, useRuleNames, useSchema } from "../api/hooks";
import type { Entity } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { FieldValue } from "../components/FieldValue";
import { LongTable } from "../components/LongTable";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { Timestamp } from "../components/Timestamp";
import { fieldLabel, type Fields } from "../fields";
import { formatCount, formatKey, formatNumber } from "../format";
import { AddToList } from "./AddToList";
import { EntityAlerts } from "./EntityAlerts";
import { EntityLink } from "./EntityLink";
import { entityOf } from "./entityPath";
import { PaymentTable } from "./PaymentTable";
import { RuleAggregates } from "./RuleAggregates";

const PERIODS = { 1: "Last day", 7: "Last 7 days", 30: "Last 30 days", 90: "Last 90 days" };
const HOUR_MS = 3_600_000;

/** Everything about one value of a field, such as one payer. */
export default function EntityPage() {
  const [params, setParams] = useSearchParams();
  const { field, value, days } = entityOf(params);
  const fields = useSchema().data?.fields ?? [];
  const title = `${fieldLabel(field, fields)} ${value}`;
  usePageTitle(title);
  const entity = useQuery({ ...entityQuery({ field, value, days }), placeholderData: keepPreviousData });
  return (
    <>
      <PageHeader title={title} subtitle={entity.data && <Summary entity={entity.data} />}>
        <Select
          aria-label="Period"
          allowDeselect={false}
          data={Object.entries(PERIODS).map(([name, label]) => ({ value: name, label }))}
          value={days}
          onChange={(next) =>
            setParams(
              (old) => {
                old.set("days", next ?? "30");
                return old;
              },
              { replace: true },
            )
          }
          w="10.5rem"
        />
        <Button variant="default" loading={entity.isFetching} onClick={() => void entity.refetch()}>
          Reload
        </Button>
      </PageHeader>
      <QueryResult query={entity}>{(found) => <EntityView entity={found} fields={fields} />}</QueryResult>
      <EntityAlerts field={field} value={value} days={days} />
    </>
  );
}

function Summary({ entity }: { entity: Entity }) {
  return (
    <>
      {formatCount(entity.count, "payment")} since <Timestamp ms={Math.max(entity.since, entity.reached)} />
    </>
  );
}

interface Props {
  entity: Entity;
  fields: Fields;
}

function EntityView({ entity, fields }: Props) {
  return (
    <>
      {entity.notes.length > 0 && (
        <Notice
          color="yellow"
          variant="light"
          title="Incomplete payments"
          styles={{ title: { color: "var(--mantine-color-text)" } }}
          mb="md"
          role="status"
        >
          {entity.notes.map((note) => (
            <p key={note} style={{ margin: 0 }}>
              {note}
            </p>
          ))}
          {entity.reached > entity.since && (
            <p style={{ margin: 0 }}>
              The list begins at <Timestamp ms={entity.reached} />.
            </p>
          )}
        </Notice>
      )}
      <div className="sides">
        <PaymentsOverTime entity={entity} />
        <ListsPanel entity={entity} />
      </div>
      <Restrictions entity={entity} fields={fields} />
      <Payments entity={entity} fields={fields} />
      <RuleAggregates entity={entity} fields={fields} />
      <Counterparties entity={entity} fields={fields} />
    </>
  );
}

function PaymentsOverTime({ entity }: { entity: Entity }) {
  const isHourly = entity.periodMs <= HOUR_MS;
  const format = new Intl.DateTimeFormat(
    "en-GB",
    isHourly
      ? { day: "numeric", month: "short", hour: "2-digit", timeZone: "UTC" }
      : { day: "numeric", month: "short", timeZone: "UTC" },
  );
  const data = entity.periods.map((period) => ({ at: format.format(period.at), payments: period.count }));
  return (
    <section className="panel" aria-label="Payments over time">
      <h2>Payments per {isHourly ? "hour" : "day"} (UTC)</h2>
      {data.length === 0 ? (
        <EmptyState>No payments in this period</EmptyState>
      ) : (
        <BarChart
          h={200}
          data={data}
          dataKey="at"
          series={[{ name: "payments", color: "var(--mark)" }]}
          yAxisProps={{ allowDecimals: false }}
          barProps={{ maxBarSize: 48 }}
          aria-label={`Payments by time, ${formatNumber(entity.count)} in total`}
          role="img"
        />
      )}
    </section>
  );
}

function ListsPanel({ entity }: { entity: Entity }) {
  const can = useCan();
  const [isAdding, setIsAdding] = useState(false);
  return (
    <section className="panel" aria-label="Lists">
      <h2>Lists</h2>
      {entity.lists.length === 0 ? (
        <p>Not in any list</p>
      ) : (
        <ul style={{ paddingLeft: "1.1rem" }}>
          {entity.lists.map((name) => (
            <li key={name}>
              <Link to={`/lists/${encodeURIComponent(name)}`}>{name}</Link>
            </li>
          ))}
        </ul>
      )}
      {can("draft") && (
        <Button variant="default" onClick={() => setIsAdding(true)}>
          Add to list …
        </Button>
      )}
      {isAdding && <AddToList entity={entity} close={() => setIsAdding(false)} />}
    </section>
  );
}

function Counterparties({ entity, fields }: Props) {
  if (entity.counterparties.length === 0) return null;
  return (
    <section className="panel" aria-label="Counterparties" style={{ marginTop: "1rem" }}>
      <h2>Counterparties</h2>
      <LongTable
        label="Counterparties"
        columns={["Field", "Value", "Payments", "Amount", "Last payment"]}
        items={entity.counterparties}
      >
        {(each) => (
          <Table.Tr key={`${each.field} ${toText(each.value)}`}>
            <Table.Td>{fieldLabel(each.field, fields)}</Table.Td>
            <Table.Td className="number">
              <EntityLink field={each.field} value={toText(each.value)} />
            </Table.Td>
            <Table.Td className="number">{formatNumber(each.count)}</Table.Td>
            <Table.Td className="number">
              {each.amount === null ? (
                "–"
              ) : (
                <FieldValue name={entity.amountField ?? ""} value={each.amount} fields={fields} />
              )}
            </Table.Td>
            <Table.Td>
              <Timestamp ms={each.last} />
            </Table.Td>
          </Table.Tr>
        )}
      </LongTable>
    </section>
  );
}

/** The restrictions of the entity's keys, which rules with the action RESTRICT have made. */
function Restrictions({ entity, fields }: Props) {
  const names = useRuleNames();
  if (entity.restrictions.length === 0) return null;
  return (
    <section className="panel" aria-label="Restrictions" style={{ marginTop: "1rem" }}>
      <h2>Restrictions</h2>
      <LongTable label="Restrictions" columns={["Since", "Key", "Rule", "State", ""]} items={entity.restrictions}>
        {(each) => (
          <Table.Tr key={each.alertId}>
            <Table.Td>
              <Timestamp ms={each.since} />
            </Table.Td>
            <Table.Td className="number">{formatKey(each.key, fields)}</Table.Td>
            <Table.Td>
              <Link to={`/rules/${each.ruleId}`}>{names.get(each.ruleId) ?? `Rule ${each.ruleId}`}</Link>
            </Table.Td>
            <Table.Td>
              {each.lifted === null ? (
                "In force"
              ) : (
                <>
                  Lifted <Timestamp ms={each.lifted} />
                </>
              )}
            </Table.Td>
            <Table.Td>
              <ProofIcon alertId={each.alertId} of={`restriction by rule ${each.ruleId}`} />
            </Table.Td>
          </Table.Tr>
        )}
      </LongTable>
    </section>
  );
}

function Payments({ entity, fields }: Props) {
  if (entity.payments.length === 0) return null;
  return (
    <section className="panel" aria-label="Payments" style={{ marginTop: "1rem" }}>
      <h2>
        {entity.count > entity.payments.length ? `Newest ${formatNumber(entity.payments.length)} payments` : "Payments"}
      </h2>
      <PaymentTable
        label="Payments"
        hidden={entity.field}
        payments={entity.payments}
        decisions={entity.decisions}
        fields={fields}
      />
    </section>
  );
}
