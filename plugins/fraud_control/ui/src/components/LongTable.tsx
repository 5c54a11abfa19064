import { type ReactNode, useDeferredValue } from "react";
import { ScrollableTable } from "./ScrollableTable";

const FIRST_ROWS = 20;

interface Props<Item> {
  label: string;
  columns: readonly string[];
  right?: readonly string[];
  items: readonly Item[];
  /** The row of an item. */
  children: (item: Item, position: number) => ReactNode;
}

/** A scrollable table for hundreds of rows. It shows the first rows at once, and then React renders the others. */
export function LongTable<Item>({ items, children, ...props }: Props<Item>) {
  const shown = useDeferredValue(items, items.slice(0, FIRST_ROWS));
  return <ScrollableTable {...props}>{shown.map(children)}</ScrollableTable>;
}
