import type { Fields } from "../fields";

/** Whether the values of a field have pages: it holds an id, but not the id of the payment itself. */
export function isEntityField({ name, type }: Pick<Fields[number], "name" | "type">): boolean {
  return (type === "long" || (type === "string" && name.endsWith("Id"))) && name !== "transactionId";
}

/** What a masked value begins with: HIDDEN in domain/masking.py. */
const MASK = "••••";

/** Whether the server has hidden a part of a value, so that nothing can be found by it. */
export function isMasked(value: string): boolean {
  return value.startsWith(MASK);
}

/** The value that the page is about, and the period in days, from the search part of the page's address. */
export function entityOf(search: URLSearchParams) {
  return {
    field: search.get("field") ?? "",
    value: search.get("value") ?? "",
    days: search.get("days") ?? "30",
  };
}

/** The address of the page about a value of a field; null for a masked value, which leads to no page. */
export function entityPath(field: string, value: string): string | null {
  return isMasked(value) ? null : `/entity?${new URLSearchParams({ field, value }).toString()}`;
}
