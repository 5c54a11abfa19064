import { Table } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
  label: string;
  columns: readonly string[];
  children: ReactNode;
}

/** A table that scrolls within bounds, by keyboard too; `children` are its rows. */
export function ScrolledTable({ label, columns, children }: Props) {
  return (
    <div className="wide scrolled" tabIndex={0} role="region" aria-label={label}>
      <Table aria-label={label} stickyHeader>
        <Table.Thead>
          <Table.Tr>
            {columns.map((column) => (
              <Table.Th key={column}>{column}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{children}</Table.Tbody>
      </Table>
    </div>
  );
}
