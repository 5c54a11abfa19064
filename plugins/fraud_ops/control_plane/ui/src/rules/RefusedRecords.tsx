import { Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { RefusedRecords as Refused } from "../api/types";
import { At } from "../parts/At";
import { number } from "../parts/format";
import { ScrolledTable } from "../parts/ScrolledTable";
import { Reasons } from "../parts/Told";

/** The records of the rule log that the detector refused, with its reasons. Nothing if there is none. */
export function RefusedRecords() {
  const { data } = useQuery({
    queryKey: keys.refused,
    queryFn: ({ signal }) => get<Refused>("/refused-records", signal),
    refetchInterval: 60_000,
  });
  if (!data || data.items.length === 0) return null;
  return (
    <section className="panel" aria-label="Rejected records" style={{ marginTop: "1rem" }}>
      <h2>Rejected records</h2>
      <p>The detector ignores these rule log records. The previous rule version stays in force.</p>
      <ScrolledTable label="Rejected records" columns={["Time", "Offset", "Rule", "Reasons"]}>
        {data.items.map((record) => (
          <Table.Tr key={record.logVersion}>
            <Table.Td>{record.time === null ? "–" : <At ms={record.time} />}</Table.Td>
            <Table.Td className="number">{number(record.logVersion)}</Table.Td>
            <Table.Td className="number">
              {record.ruleId === null ? "unreadable" : <Link to={`/rules/${record.ruleId}`}>{record.ruleId}</Link>}
            </Table.Td>
            <Table.Td style={{ minWidth: "14rem" }}>
              <Reasons reasons={record.reasons} />
            </Table.Td>
          </Table.Tr>
        ))}
      </ScrolledTable>
    </section>
  );
}
