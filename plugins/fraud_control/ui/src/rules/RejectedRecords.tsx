import { Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Activation, RejectedRecords as RejectedRecordList } from "../api/types";
import { ReasonList } from "../components/ErrorAlert";
import { ScrollableTable } from "../components/ScrollableTable";
import { Timestamp } from "../components/Timestamp";
import { formatNumber } from "../format";

/** The rule log records that the detector rejected, with its reasons. Renders nothing if there are none. */
export function RejectedRecords() {
  const { data } = useQuery({
    queryKey: keys.refused,
    queryFn: ({ signal }) => get<RejectedRecordList>("/refused-records", signal),
    refetchInterval: 60_000,
  });
  if (!data || data.items.length === 0) return null;
  return (
    <section className="panel" aria-label="Rejected records" style={{ marginTop: "1rem" }}>
      <h2>Rejected records</h2>
      <p>The detector ignores these rule log records. The previous version stays in force.</p>
      <ScrollableTable label="Rejected records" columns={["Time", "Offset", "Rule or list", "Reasons"]}>
        {data.items.map((record) => (
          <Table.Tr key={record.logVersion}>
            <Table.Td>{record.time === null ? "–" : <Timestamp ms={record.time} />}</Table.Td>
            <Table.Td className="number">{formatNumber(record.logVersion)}</Table.Td>
            <Table.Td className="number">
              <RecordSubject record={record} />
            </Table.Td>
            <Table.Td style={{ minWidth: "14rem" }}>
              <ReasonList reasons={record.reasons} />
            </Table.Td>
          </Table.Tr>
        ))}
      </ScrollableTable>
    </section>
  );
}

function RecordSubject({ record }: { record: Activation }) {
  if (record.mapName !== null) return <Link to={`/maps/${record.mapName}`}>{record.mapName}</Link>;
  if (record.listName !== null) return <Link to={`/lists/${record.listName}`}>{record.listName}</Link>;
  return record.ruleId === null ? "unreadable" : <Link to={`/rules/${record.ruleId}`}>{record.ruleId}</Link>;
}
