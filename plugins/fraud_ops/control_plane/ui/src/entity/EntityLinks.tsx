import { Anchor, Group } from "@mantine/core";
import { Link } from "react-router";
import { toText } from "../api/exactJson";
import { useSchema } from "../api/hooks";
import { entityPath } from "./entityPath";

/** Links to the pages of the ids in a payment. */
export function EntityLinks({ payment }: { payment: Record<string, unknown> }) {
  const { data } = useSchema();
  const fields = (data?.fields ?? []).filter(
    ({ name, type }) =>
      (type === "long" || /Id$/u.test(name)) && name !== "transactionId" && payment[name] !== undefined,
  );
  return (
    <Group gap="sm" my="xs">
      {fields.map(({ name }) => (
        <Anchor key={name} component={Link} to={entityPath(name, toText(payment[name]))} size="sm" underline="always">
          {name} {toText(payment[name])}
        </Anchor>
      ))}
    </Group>
  );
}
