import { Table, Text } from "@mantine/core";
import type { Progress } from "../api/types";
import { Chip } from "../components/Chip";
import { ScrollableTable } from "../components/ScrollableTable";
import { Timestamp } from "../components/Timestamp";
import { formatNumber } from "../format";

/** The topic consumers of the control plane that are stuck, retry or skipped records. Renders nothing if all work. */
export function TopicConsumers({ progress }: { progress: Progress }) {
  const { faults } = progress;
  const behind = progress.readers.filter((consumer) => consumer.stuck || consumer.fault !== null);
  const skipped = Object.entries(progress.unreadable).filter(([, count]) => count > 0);
  if (behind.length + faults.length + skipped.length === 0) return null;
  return (
    <section className="panel" aria-label="Topic consumers">
      <h2>Topic consumers</h2>
      {behind.length > 0 && (
        <ScrollableTable
          label="Failing topic consumers"
          columns={["Consumer", "State", "Position", "Unread records", "Oldest", "Error"]}
        >
          {behind.map((consumer) => (
            <Table.Tr key={`${consumer.name} ${consumer.topic}`}>
              <Table.Td>
                {consumer.name} ({consumer.topic})
              </Table.Td>
              <Table.Td>
                <Chip tone={consumer.stuck ? "bad" : "warn"}>{consumer.stuck ? "Stuck" : "Retrying"}</Chip>
              </Table.Td>
              <Table.Td className="number">
                {formatNumber(consumer.position)} of {formatNumber(consumer.end)}
              </Table.Td>
              <Table.Td className="number">{formatNumber(consumer.behind)}</Table.Td>
              <Table.Td>{consumer.since === null ? "–" : <Timestamp ms={consumer.since} />}</Table.Td>
              <Table.Td className="wrap">{consumer.fault}</Table.Td>
            </Table.Tr>
          ))}
        </ScrollableTable>
      )}
      {faults.map(({ thread, fault }) => (
        <Text key={thread} size="sm" className="wrap">
          {thread}: {fault}
        </Text>
      ))}
      {skipped.map(([topic, count]) => (
        <Text key={topic} size="sm">
          Skipped unreadable records in {topic}: {formatNumber(count)}
        </Text>
      ))}
    </section>
  );
}
