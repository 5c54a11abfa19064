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

/** The unit of a rule's aggregate, after a blank; empty for counts. */
export function unitOf(rule: RuleDocument, fields: Fields): string {
  if (toText(rule["aggregatorFunctionType"]).toUpperCase().startsWith("COUNT")) return "";
  const unit = fieldOf(toText(rule["aggregateFieldName"]), fields)?.unit ?? "";
  return unit === "" ? "" : ` ${unit}`;
}
