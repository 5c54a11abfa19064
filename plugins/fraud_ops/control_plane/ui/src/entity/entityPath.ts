/** The address of the page about a value of a field. */
export function entityPath(field: string, value: unknown): string {
  return `/entity?${new URLSearchParams({ field, value: String(value) }).toString()}`;
}
