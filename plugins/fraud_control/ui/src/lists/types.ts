import type { ListRow, MapRow, StateName } from "../api/types";

/** A list or a map. */
export type CollectionRow = ListRow | MapRow;

/** The operations on the content of a list or map. */
export type Operation = "SET" | "ADD" | "REMOVE";

/** What distinguishes the pages of lists from those of maps. */
export interface CollectionKind {
  name: "list" | "map";
  plural: "lists" | "maps";
  content: "values" | "entries";
  subtitle: string;
  /** A line of a change, and a line of a file of several lists or maps. */
  line: string;
  fileLine: string;
}

export const LIST: CollectionKind = {
  name: "list",
  plural: "lists",
  content: "values",
  subtitle: "Lists of values that rules look up",
  line: "Values, one per line",
  fileLine: "name,type,value",
};

export const MAP: CollectionKind = {
  name: "map",
  plural: "maps",
  content: "entries",
  subtitle: "Values by key that rules read",
  line: "Entries, one key,value per line",
  fileLine: "name,key type,value type,key,value",
};

/** The function that reads the maps with values of each type. */
export const MAP_FUNCTIONS = { decimal: "map", string: "map_text" } as const;

const STRONGEST_FIRST: StateName[] = ["ACTIVE", "SIGNAL", "PAUSE", "SHADOW"];

/** The state of the rules that decides who may change their list or map. One without rules counts as a draft. */
export function strongestState({ rules }: Pick<CollectionRow, "rules">): StateName {
  return STRONGEST_FIRST.find((state) => rules.some((rule) => rule.state === state)) ?? "DRAFT";
}

export function kindOf(row: CollectionRow): CollectionKind {
  return "keyType" in row ? MAP : LIST;
}

/** The type of a list, or the types of a map. */
export function typeOf(row: CollectionRow): string {
  return "keyType" in row ? `${row.keyType} to ${row.valueType}` : row.type;
}

/** An example of a condition that looks the list or map up. */
export function exampleOf(row: CollectionRow): string {
  if (!("keyType" in row)) return `beneficiaryId in list('${row.name}')`;
  const key = row.keyType === "long" ? "payeeId" : "paymentType";
  const lookup = `${MAP_FUNCTIONS[row.valueType]}('${row.name}', ${key})`;
  return row.valueType === "decimal" ? `paymentAmount > ${lookup}` : `${lookup} = 'high'`;
}

/** The path of a list or map in the API. */
export function pathOf(kind: CollectionKind, name: string): string {
  return `/${kind.plural}/${encodeURIComponent(name)}`;
}

/** A word as the first one of a text. */
export function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
