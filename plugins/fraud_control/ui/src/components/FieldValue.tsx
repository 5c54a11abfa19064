import { isNumeric, toText } from "../api/exactJson";
import { EntityLink } from "../entity/EntityLink";
import { isEntityField } from "../entity/entityPath";
import { fieldOf, type Fields } from "../fields";
import { withUnit } from "../measure";
import { Timestamp } from "./Timestamp";

interface Props {
  name: string;
  value: unknown;
  fields: Fields;
}

/** The value of a transaction's field: a time, an amount with its unit, a link to the page of an id, or a text. */
export function FieldValue({ name, value, fields }: Props) {
  const field = fieldOf(name, fields);
  const isTime = field ? field.type === "timestamp" : /Time(stamp)?$/u.test(name);
  if (isTime && typeof value === "number") return <Timestamp ms={value} />;
  const text = toText(value);
  if (field && isEntityField(field) && text !== "") return <EntityLink field={field.name} value={text} />;
  if (field?.type !== "decimal" || !(isNumeric(value) || typeof value === "string")) return <>{text}</>;
  return <>{withUnit(text, field)}</>;
}
