import type { Fields } from "../fields";

/** Whether the values of a field have pages: it holds an id, but not the id of the payment itself. */
export function isEntityField({ name, type }: Pick<Fields[number], "name" | "type">): boolean {
  return (type === "long" || name.endsWith("Id")) && name !== "transactionId";
}

/** The address of the page about a value of a field. */
export function entityPath(field: string, value: unknown): string {
  return `/entity?${new URLSearchParams({ field, value: String(value) }).toString()}`;
}
