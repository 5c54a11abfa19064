import { Table, Text } from "@mantine/core";
import type { Progress } from "../api/types";
import { At } from "../parts/At";
import { Chip } from "../parts/Chip";
import { number } from "../parts/format";
import { ScrolledTable } from "../parts/ScrolledTable";

/** The readers of topics behind these pages, if one of them is behind, stuck or failing, or has skipped records. */
export function Readers({ progress }: { progress: Progress }) {
  const { faults } = progress;
  const behind = progress.readers.filter((reader) => reader.stuck || reader.fault !== null);
  const skipped = Object.entries(progress.unreadable).filter(([, count]) => count > 0);
  if (behind.length + faults.length + skipped.length === 0) return null;
  return (
    <section className="panel" aria-label="Topic consumers">
      <h2>Topic consumers</h2>
      {behind.length > 0 && (
        <ScrolledTable
          label="Topic consumers"
          columns={["Consumer", "State", "Position", "Unread records", "Oldest", "Error"]}
        >
          {behind.map((reader) => (
            <Table.Tr key={`${reader.name} ${reader.topic}`}>
              <Table.Td>
                {reader.name} ({reader.topic})
              </Table.Td>
              <Table.Td>
                <Chip tone={reader.stuck ? "bad" : "warn"}>{reader.stuck ? "Stuck" : "Retrying"}</Chip>
              </Table.Td>
              <Table.Td className="number">
                {number(reader.position)} of {number(reader.end)}
              </Table.Td>
              <Table.Td className="number">{number(reader.behind)}</Table.Td>
              <Table.Td>{reader.since === null ? "–" : <At ms={reader.since} />}</Table.Td>
              <Table.Td className="wrap">{reader.fault}</Table.Td>
            </Table.Tr>
          ))}
        </ScrolledTable>
      )}
      {faults.map(({ thread, fault }) => (
        <Text key={thread} size="sm" className="wrap">
          {thread}: {fault}
        </Text>
      ))}
      {skipped.map(([topic, count]) => (
        <Text key={topic} size="sm">
          Skipped unreadable records in {topic}: {number(count)}
        </Text>
      ))}
    </section>
  );
}
