import { Text } from "@mantine/core";
import { toText } from "../api/exactJson";
import { useSchema } from "../api/hooks";
import { fieldLabel } from "../fields";
import { EntityLink } from "./EntityLink";
import { isEntityField } from "./entityPath";

/** Links to the pages of the ids in a payment, or in the key of an alert, which may name an entity. */
export function EntityLinks({ payment }: { payment: Record<string, unknown> }) {
  const { data } = useSchema();
  const fields = data?.fields ?? [];
  const entities = (data?.entities ?? []).filter(({ type }) => type === "long" || type === "string");
  const ids = [...entities, ...fields.filter(isEntityField)].filter(({ name }) => payment[name] !== undefined);
  return (
    <>
      {ids.map(({ name }) => (
        <Text key={name} size="sm" span>
          <EntityLink field={name} value={toText(payment[name])}>
            {fieldLabel(name, fields)} {toText(payment[name])}
          </EntityLink>
        </Text>
      ))}
    </>
  );
}
