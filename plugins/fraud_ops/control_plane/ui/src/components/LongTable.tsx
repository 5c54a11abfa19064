import { type ReactNode, useDeferredValue } from "react";
import { ScrollableTable } from "./ScrollableTable";

const FIRST_ROWS = 20;

interface Props<Item> {
  label: string;
  columns: readonly string[];
  items: readonly Item[];
  /** The row of an item. */
  children: (item: Item, position: number) => ReactNode;
}

/** A scrollable table that shows its first rows before React renders the others: hundreds of rows take a while. */
export function LongTable<Item>({ label, columns, items, children }: Props<Item>) {
  const shown = useDeferredValue(items, items.slice(0, FIRST_ROWS));
  return (
    <ScrollableTable label={label} columns={columns}>
      {shown.map(children)}
    </ScrollableTable>
  );
}
