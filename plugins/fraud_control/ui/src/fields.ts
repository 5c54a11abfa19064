import { aggregateOf } from "./aggregates";
import { toText } from "./api/exactJson";
import type { RuleDocument, Schema } from "./api/types";

/** The declared fields of a transaction. */
export type Fields = Schema["fields"];

/** The declaration of a field, by its name or an alias. */
export function fieldOf(name: string, fields: Fields): Fields[number] | undefined {
  return fields.find((field) => field.name === name || field.aliases.includes(name));
}

/** The label of a field; its name without a label. */
export function fieldLabel(name: string, fields: Fields): string {
  return fieldOf(name, fields)?.label || name;
}

/** The first decimal field: the amount of a payment. */
export function amountField(fields: Fields): Fields[number] | undefined {
  return fields.find((field) => field.type === "decimal");
}

/** The field that a rule aggregates; undefined for counts. */
export function aggregatedField(rule: RuleDocument, fields: Fields): Fields[number] | undefined {
  if ((aggregateOf(rule)?.input ?? "FIELD") !== "FIELD") return undefined;
  return fieldOf(toText(rule["aggregateFieldName"]), fields);
}
