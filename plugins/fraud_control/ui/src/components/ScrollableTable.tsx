import { Table } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
  label: string;
  columns: readonly string[];
  /** The columns that align to the right. */
  right?: readonly string[];
  children: ReactNode;
}

/** A table with a limited height that scrolls, also by keyboard. `children` are its rows. */
export function ScrollableTable({ label, columns, right, children }: Props) {
  return (
    <div className="wide scrollable" tabIndex={0} role="region" aria-label={label}>
      <Table className="rows" aria-label={label} stickyHeader>
        <Table.Thead>
          <Table.Tr>
            {columns.map((column) => (
              <Table.Th key={column} {...(right?.includes(column) ? { ta: "right" as const } : {})}>
                {column}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{children}</Table.Tbody>
      </Table>
    </div>
  );
}
