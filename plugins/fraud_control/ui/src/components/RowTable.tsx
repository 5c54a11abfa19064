import { Table, VisuallyHidden } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
  label: string;
  columns: readonly string[];
  /** Whether a last column has buttons. Only screen readers read the title of this column. */
  actions?: boolean;
  children: ReactNode;
}

/** A table that scrolls sideways on a narrow screen. `children` are its rows. */
export function RowTable({ label, columns, actions = false, children }: Props) {
  return (
    <div className="wide">
      <Table className="rows" aria-label={label}>
        <Table.Thead>
          <Table.Tr>
            {columns.map((column) => (
              <Table.Th key={column}>{column}</Table.Th>
            ))}
            {actions && (
              <Table.Th>
                <VisuallyHidden>Actions</VisuallyHidden>
              </Table.Th>
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{children}</Table.Tbody>
      </Table>
    </div>
  );
}
