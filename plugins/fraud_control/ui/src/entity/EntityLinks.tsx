import { Anchor } from "@mantine/core";
import { Link } from "react-router";
import { toText } from "../api/exactJson";
import { useSchema } from "../api/hooks";
import { fieldLabel } from "../fields";
import { entityPath, isEntityField } from "./entityPath";

/** Links to the pages of the ids in a payment. */
export function EntityLinks({ payment }: { payment: Record<string, unknown> }) {
  const { data } = useSchema();
  const fields = data?.fields ?? [];
  const ids = fields.filter((field) => isEntityField(field) && payment[field.name] !== undefined);
  return (
    <>
      {ids.map(({ name }) => (
        <Anchor key={name} component={Link} to={entityPath(name, toText(payment[name]))} size="sm" underline="always">
          {fieldLabel(name, fields)} {toText(payment[name])}
        </Anchor>
      ))}
    </>
  );
}
