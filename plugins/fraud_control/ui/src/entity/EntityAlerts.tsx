import { Anchor, Button, Group } from "@mantine/core";
import { useState } from "react";
import { Link } from "react-router";
import { AlertItems } from "../alerts/AlertItems";
import { filterOf, parametersOf } from "../alerts/alertSearch";
import { queryOf, useAlerts } from "../alerts/useAlerts";
import { EmptyState } from "../components/EmptyState";
import { QueryResult } from "../components/QueryResult";

/** The alerts whose key has the entity, with their marks and snoozes. */
export function EntityAlerts({ field, value, days }: { field: string; value: string; days: string }) {
  const [open, setOpen] = useState<string | null>(null);
  const filter = {
    ...filterOf(new URLSearchParams()),
    entity: `${field}:${value}`,
    since: `${days}d`,
    snoozed: true,
  };
  const view = useAlerts(filter, open !== null);
  const address = `/alerts?${new URLSearchParams(parametersOf(filter)).toString()}`;
  return (
    <section className="panel" aria-label="Alerts" style={{ marginTop: "1rem" }}>
      <Group justify="space-between">
        <h2>Alerts</h2>
        <Anchor component={Link} to={address} size="sm" underline="always">
          Open in Alerts
        </Anchor>
      </Group>
      <QueryResult query={queryOf(view)}>
        {(alerts) =>
          alerts.length === 0 ? (
            <EmptyState>No alerts in this period</EmptyState>
          ) : (
            <AlertItems view={view} open={open} setOpen={setOpen} onSnoozed={view.reload} />
          )
        }
      </QueryResult>
      {view.continuation.next !== null && (
        <Button variant="default" mt="sm" loading={view.loadingOlder} onClick={view.loadOlder}>
          Load older alerts
        </Button>
      )}
    </section>
  );
}
