import { Anchor, Button, Group } from "@mantine/core";
import { useState } from "react";
import { Link } from "react-router";
import { useRuleNames } from "../api/hooks";
import { AlertItem } from "../alerts/AlertItem";
import { filterOf, parametersOf } from "../alerts/alertSearch";
import { useAlerts } from "../alerts/useAlerts";
import { EmptyState } from "../components/EmptyState";
import { QueryResult } from "../components/QueryResult";

/** The alerts whose key has the entity, with their marks and snoozes. */
export function EntityAlerts({ field, value, days }: { field: string; value: string; days: string }) {
  const names = useRuleNames();
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
      <QueryResult
        query={{
          data: view.loading && view.alerts.length === 0 ? undefined : view.alerts,
          error: view.error,
          isPending: view.loading,
          refetch: view.reload,
        }}
      >
        {(alerts) =>
          alerts.length === 0 ? (
            <EmptyState>No alerts in this period</EmptyState>
          ) : (
            <ol
              aria-label="Alerts"
              style={{ listStyle: "none", margin: 0, padding: 0, display: "grid", gap: "0.3125rem" }}
            >
              {alerts.map((alert) => (
                <AlertItem
                  key={alert.alertId}
                  alert={alert}
                  name={names.get(alert.ruleId) ?? ""}
                  isNew={view.newIds.has(alert.alertId)}
                  isOpen={open === alert.alertId}
                  onToggle={() => setOpen(open === alert.alertId ? null : alert.alertId)}
                  onMark={view.setMark}
                  onSnoozed={view.reload}
                />
              ))}
            </ol>
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
