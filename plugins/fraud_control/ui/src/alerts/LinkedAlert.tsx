import { Button, Group } from "@mantine/core";
import { EmptyState } from "../components/EmptyState";
import { QueryResult } from "../components/QueryResult";
import { AlertItems } from "./AlertItems";
import { filterOf } from "./alertSearch";
import { queryOf, useAlerts } from "./useAlerts";

/** The alert that the address names, if the list below does not have it. */
export function LinkedAlert({ alertId, close }: { alertId: string; close: () => void }) {
  const view = useAlerts({ ...filterOf(new URLSearchParams()), alertId, snoozed: true }, false);
  return (
    <section className="panel" aria-label="Linked alert" style={{ marginBottom: "1rem" }}>
      <Group justify="space-between" mb="xs">
        <h2 style={{ margin: 0 }}>Linked alert</h2>
        <Button variant="default" size="xs" onClick={close}>
          Close
        </Button>
      </Group>
      <QueryResult query={queryOf(view)}>
        {(alerts) =>
          alerts.length === 0 ? (
            <EmptyState>This alert does not exist, or has left the alert index</EmptyState>
          ) : (
            <AlertItems label="Linked alert" view={view} open={alertId} setOpen={close} onSnoozed={close} />
          )
        }
      </QueryResult>
    </section>
  );
}
