import { Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSchema } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { DataHealth } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { Fact } from "../components/Fact";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { ScrollableTable } from "../components/ScrollableTable";
import { Section } from "../components/Section";
import { Timestamp } from "../components/Timestamp";
import { fieldLabel } from "../fields";
import { DataFaults } from "./DataFaults";
import { formatNumber } from "../format";

const POLL_MS = 15_000;

/** The health of the payments in the last 24 hours, beside the days before. */
export default function DataPage() {
  usePageTitle("Data");
  const health = useQuery({
    queryKey: keys.dataHealth,
    queryFn: ({ signal }) => get<DataHealth>("/data-health", signal),
    refetchInterval: POLL_MS,
  });
  return (
    <>
      <PageHeader title="Data" subtitle="Payments of the last 24 hours, and of the days before" />
      <QueryResult query={health}>{(data) => <Health health={data} />}</QueryResult>
    </>
  );
}

function Health({ health }: { health: DataHealth }) {
  if (!health.recorded) {
    return <EmptyState>The topic data-health does not exist. Create it with: fraud kafka topics apply</EmptyState>;
  }
  if (health.since === null || health.until === null) return <EmptyState>No payments yet</EmptyState>;
  return (
    <div style={{ display: "grid", gap: "1rem" }}>
      <Text size="sm" c="dimmed">
        Since <Timestamp ms={health.since} withDate />, as of <Timestamp ms={health.until} />
      </Text>
      <DataFaults faults={health.faults} />
      <Totals hours={health.hours} />
      <Fields fields={health.fields} />
      <Reasons reasons={health.reasons} />
      <NewTexts texts={health.newTexts} />
      <Groupings groupings={health.groupings} />
      <Hours hours={health.hours} />
    </div>
  );
}

function Totals({ hours }: Pick<DataHealth, "hours">) {
  const total = (member: keyof DataHealth["hours"][number]) =>
    formatNumber(hours.reduce((sum, hour) => sum + hour[member], 0));
  return (
    <dl className="facts panel">
      <Fact name="Payments">{total("rows")}</Fact>
      <Fact name="Late payments">{total("late")}</Fact>
      <Fact name="Quarantined records">{total("quarantined")}</Fact>
      <Fact name="Duplicates">{total("duplicates")}</Fact>
      <Fact name="Duplicates with other content">{total("conflictingDuplicates")}</Fact>
      <Fact name="Payments without a grouping key">{total("nullKeys")}</Fact>
    </dl>
  );
}

function Share({ share }: { share: number | null }) {
  return <>{share === null ? "–" : `${formatNumber(Math.round(1_000 * share) / 10)} %`}</>;
}

function Fields({ fields }: Pick<DataHealth, "fields">) {
  const declared = useSchema().data?.fields ?? [];
  return (
    <Section title="Fields" empty={null}>
      <RowTable label="Fields" columns={["Field", "Without a value", "Share", "Share before"]}>
        {fields.map((field) => (
          <Table.Tr key={field.name}>
            <Table.Td>{fieldLabel(field.name, declared)}</Table.Td>
            <Table.Td className="number">{formatNumber(field.nulls)}</Table.Td>
            <Table.Td className="number">
              <Share share={field.share} />
            </Table.Td>
            <Table.Td className="number">
              <Share share={field.shareBefore} />
            </Table.Td>
          </Table.Tr>
        ))}
      </RowTable>
    </Section>
  );
}

function Reasons({ reasons }: Pick<DataHealth, "reasons">) {
  return (
    <Section title="Quarantine by reason" empty={reasons.length === 0 ? "No quarantined records" : null}>
      <RowTable
        label="Quarantine by reason"
        columns={["Reason", "Records", "Records before", "Since", "Newest detail"]}
      >
        {reasons.map((each) => (
          <Table.Tr key={each.reason}>
            <Table.Td className="code clip">{each.reason}</Table.Td>
            <Table.Td className="number">{formatNumber(each.count)}</Table.Td>
            <Table.Td className="number">{formatNumber(each.countBefore)}</Table.Td>
            <Table.Td>
              <Timestamp ms={each.since} />
            </Table.Td>
            <Table.Td className="wrap">{each.detail}</Table.Td>
          </Table.Tr>
        ))}
      </RowTable>
    </Section>
  );
}

function NewTexts({ texts }: { texts: DataHealth["newTexts"] }) {
  const fields = useSchema().data?.fields ?? [];
  return (
    <Section title="New texts" empty={texts.length === 0 ? "No new texts" : null}>
      <RowTable label="New texts" columns={["Field", "Text", "Payments", "Since"]}>
        {texts.map((each) => (
          <Table.Tr key={`${each.name} ${each.text}`}>
            <Table.Td>{fieldLabel(each.name, fields)}</Table.Td>
            <Table.Td className="code wrap">{each.text}</Table.Td>
            <Table.Td className="number">{formatNumber(each.count)}</Table.Td>
            <Table.Td>
              <Timestamp ms={each.since} />
            </Table.Td>
          </Table.Tr>
        ))}
      </RowTable>
    </Section>
  );
}

function Groupings({ groupings }: Pick<DataHealth, "groupings">) {
  const fields = useSchema().data?.fields ?? [];
  const title = (grouping: string) => grouping.split("&").map((name) => fieldLabel(name, fields));
  return (
    <Section title="Groupings" empty={groupings.length === 0 ? "No groupings" : null}>
      <RowTable label="Groupings" columns={["Grouping", "Late payments", "Late before", "Keys in state"]}>
        {groupings.map((each) => (
          <Table.Tr key={each.grouping}>
            <Table.Td>{each.grouping === "" ? "All payments" : title(each.grouping).join(", ")}</Table.Td>
            <Table.Td className="number">{formatNumber(each.late)}</Table.Td>
            <Table.Td className="number">{formatNumber(each.lateBefore)}</Table.Td>
            <Table.Td className="number">{formatNumber(each.keys)}</Table.Td>
          </Table.Tr>
        ))}
      </RowTable>
    </Section>
  );
}

const HOUR_COLUMNS = [
  "Hour",
  "Payments",
  "Late",
  "Quarantined",
  "Duplicates",
  "Other content",
  "No grouping key",
  "Uncounted batches",
];

function Hours({ hours }: Pick<DataHealth, "hours">) {
  return (
    <Section title="By hour" empty={hours.length === 0 ? "No payments in 24 hours" : null}>
      <ScrollableTable label="Hours" columns={HOUR_COLUMNS}>
        {hours.toReversed().map((hour) => (
          <Table.Tr key={hour.time}>
            <Table.Td>
              <Timestamp ms={hour.time} />
            </Table.Td>
            <Table.Td className="number">{formatNumber(hour.rows)}</Table.Td>
            <Table.Td className="number">{formatNumber(hour.late)}</Table.Td>
            <Table.Td className="number">{formatNumber(hour.quarantined)}</Table.Td>
            <Table.Td className="number">{formatNumber(hour.duplicates)}</Table.Td>
            <Table.Td className="number">{formatNumber(hour.conflictingDuplicates)}</Table.Td>
            <Table.Td className="number">{formatNumber(hour.nullKeys)}</Table.Td>
            <Table.Td className="number">{formatNumber(hour.uncountedBatches)}</Table.Td>
          </Table.Tr>
        ))}
      </ScrollableTable>
    </Section>
  );
}
