import { Table, Text } from "@mantine/core";
import type { CollectionDiff } from "../api/types";
import { Chip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { ScrollableTable } from "../components/ScrollableTable";
import { formatNumber } from "../format";
import { type CollectionKind, MAP } from "./types";

const SHOWN = 200;

/** The values or entries that a change adds and removes. */
export function DiffTable({ kind, diff, label }: { kind: CollectionKind; diff: CollectionDiff; label: string }) {
  if (diff.added === 0 && diff.removed === 0) return <EmptyState>No differences</EmptyState>;
  const rows = [
    ...diff.removedValues.slice(0, SHOWN).map((value) => ({ value, added: false })),
    ...diff.addedValues.slice(0, SHOWN).map((value) => ({ value, added: true })),
  ];
  return (
    <>
      <Text size="sm" my="xs">
        {formatNumber(diff.added)} added, {formatNumber(diff.removed)} removed
        {rows.length < diff.added + diff.removed && `. The table shows the first ${rows.length}.`}
      </Text>
      <ScrollableTable label={label} columns={["Change", kind === MAP ? "Entry" : "Value"]}>
        {rows.map(({ value, added }) => (
          <Table.Tr key={`${added} ${value}`}>
            <Table.Td>
              <Chip tone={added ? "good" : "bad"}>{added ? "Added" : "Removed"}</Chip>
            </Table.Td>
            <Table.Td className="code wrap">{value}</Table.Td>
          </Table.Tr>
        ))}
      </ScrollableTable>
    </>
  );
}
