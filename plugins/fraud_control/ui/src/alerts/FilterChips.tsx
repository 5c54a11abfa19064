import { Button, Group } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useSchema } from "../api/hooks";
import { fieldLabel } from "../fields";
import type { AlertFilter } from "./alertSearch";

interface Props {
  filter: AlertFilter;
  change: (members: Partial<AlertFilter>) => void;
}

/** The filters of a link that have no field on the page: an entity and a case. Each can be removed. */
export function FilterChips({ filter, change }: Props) {
  const fields = useSchema().data?.fields ?? [];
  const [field = "", ...value] = filter.entity.split(":");
  const chips = [
    ...(filter.entity === "" ? [] : [[`${fieldLabel(field, fields)} ${value.join(":")}`, { entity: "" }] as const]),
    ...(filter.caseId === null ? [] : [[`Case ${filter.caseId}`, { caseId: null }] as const]),
  ];
  if (chips.length === 0) return null;
  return (
    <Group gap="xs" mb="sm" role="group" aria-label="Further filters">
      {chips.map(([text, without]) => (
        <Button
          key={text}
          size="xs"
          variant="light"
          rightSection={<IconX size={12} aria-hidden />}
          aria-label={`Only ${text}: remove this filter`}
          onClick={() => change(without)}
        >
          Only {text}
        </Button>
      ))}
    </Group>
  );
}
