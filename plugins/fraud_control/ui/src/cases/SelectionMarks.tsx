import { Button, Group, Text } from "@mantine/core";
import type { Mark } from "../alerts/types";
import { formatNumber } from "../format";
import { notifySuccess } from "../notifications";
import { useMarkAlerts } from "./useCaseChanges";

interface Props {
  /** The ids of the selected alerts. */
  selected: ReadonlySet<string>;
  setSelected: (alertIds: ReadonlySet<string>) => void;
  onMarked: () => void;
}

/** Buttons that mark the selected alerts. They appear with the first selected alert. */
export function SelectionMarks({ selected, setSelected, onMarked }: Props) {
  const markAlerts = useMarkAlerts();
  if (selected.size === 0) return null;
  const mark = (verdict: Mark["verdict"] | null) =>
    markAlerts.mutate(
      { alertIds: [...selected], verdict },
      {
        onSuccess: ({ body: { marked, unchanged, unknown } }) => {
          const rest = [
            ...(unchanged > 0 ? [`${formatNumber(unchanged)} unchanged`] : []),
            ...(unknown.length > 0 ? [`${formatNumber(unknown.length)} not in the alert index`] : []),
          ];
          notifySuccess([`${formatNumber(marked)} alerts changed`, ...rest].join(", "));
          setSelected(new Set());
          onMarked();
        },
      },
    );
  return (
    <Group gap="xs" mb="sm" role="group" aria-label="Selected alerts">
      <Text size="sm" span role="status">
        {formatNumber(selected.size)} selected
      </Text>
      <Button variant="default" disabled={markAlerts.isPending} onClick={() => mark("FRAUD")}>
        Mark as fraud
      </Button>
      <Button variant="default" disabled={markAlerts.isPending} onClick={() => mark("NOT_FRAUD")}>
        Mark as not fraud
      </Button>
      <Button variant="default" disabled={markAlerts.isPending} onClick={() => mark(null)}>
        Remove marks
      </Button>
      <Button variant="subtle" onClick={() => setSelected(new Set())}>
        Clear selection
      </Button>
    </Group>
  );
}
