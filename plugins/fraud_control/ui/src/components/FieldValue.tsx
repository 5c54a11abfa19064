import { Link } from "react-router";
import { isNumeric, toText } from "../api/exactJson";
import { entityPath, isEntityField } from "../entity/entityPath";
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
  if (field && isEntityField(field) && text !== "") return <Link to={entityPath(field.name, text)}>{text}</Link>;
  if (field?.type !== "decimal" || !(isNumeric(value) || typeof value === "string")) return <>{text}</>;
  return <>{withUnit(text, field)}</>;
}
