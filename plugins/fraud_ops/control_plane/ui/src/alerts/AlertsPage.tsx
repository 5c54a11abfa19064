import { Button, Group, Select, Switch, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { useRuleNames } from "../api/hooks";
import { EmptyState } from "../components/EmptyState";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { Timestamp } from "../components/Timestamp";
import { formatNumber } from "../format";
import { useOutage } from "../outage/useLiveness";
import { AlertItem } from "./AlertItem";
import type { AlertFilter } from "./alertList";
import { SnoozeList } from "./SnoozeList";
import { type AlertListView, useAlerts } from "./useAlerts";

/** New alerts as they arrive, newest first. The list pauses while an alert is open. */
export function AlertsPage() {
  usePageTitle("Alerts");
  const [params, setParams] = useSearchParams();
  const names = useRuleNames();
  const outage = useOutage();
  const [paused, setPaused] = useState(false);
  const [open, setOpen] = useState<string | null>(null);
  const [keyInput, setKeyInput] = useState(params.get("key") ?? "");
  const [key] = useDebouncedValue(keyInput, 250);
  const filter: AlertFilter = {
    ruleId: Number(params.get("rule")) || null,
    key,
    shadow: { live: false, shadow: true }[params.get("kind") ?? ""] ?? null,
    corrections: params.get("corrections") !== "0",
    snoozed: params.get("snoozed") === "1",
  };
  const view = useAlerts(filter, paused || open !== null);
  const set = (name: string, value: string | null) =>
    setParams(
      (old) => {
        if (value) old.set(name, value);
        else old.delete(name);
        return old;
      },
      { replace: true },
    );

  return (
    <>
      <PageHeader title="Alerts">
        {view.newCount > 0 && (
          <Button
            variant="light"
            onClick={() => {
              setOpen(null);
              setPaused(false);
            }}
          >
            Show {formatNumber(view.newCount)} new {view.newCount === 1 ? "alert" : "alerts"}
          </Button>
        )}
        <Button
          variant="default"
          aria-pressed={paused}
          leftSection={paused ? <IconPlayerPlay size={14} aria-hidden /> : <IconPlayerPause size={14} aria-hidden />}
          onClick={() => setPaused(!paused)}
        >
          {paused ? "Resume" : "Pause"}
        </Button>
      </PageHeader>
      <Group mb="sm" gap="xs" align="center">
        <Select
          aria-label="Rule"
          placeholder="Any rule"
          searchable
          clearable
          clearButtonProps={{ "aria-label": "Any rule" }}
          limit={100}
          data={[...names].map(([id, name]) => ({ value: String(id), label: `${id} ${name}` }))}
          value={params.get("rule")}
          onChange={(value) => set("rule", value)}
          style={{ flex: "1 1 12rem", maxWidth: "20rem" }}
        />
        <TextInput
          type="search"
          aria-label="Search by ID"
          placeholder="Search by ID"
          value={keyInput}
          onChange={(event) => {
            setKeyInput(event.currentTarget.value.trim());
            set("key", event.currentTarget.value.trim());
          }}
          style={{ flex: "1 1 9rem", maxWidth: "14rem" }}
        />
        <Select
          aria-label="Kind"
          placeholder="Live and shadow"
          clearable
          clearButtonProps={{ "aria-label": "Live and shadow" }}
          data={[
            { value: "live", label: "Live only" },
            { value: "shadow", label: "Shadow only" },
          ]}
          value={params.get("kind")}
          onChange={(value) => set("kind", value)}
          w="10.5rem"
        />
        <Switch
          label="Show snoozed"
          checked={filter.snoozed}
          onChange={(event) => set("snoozed", event.currentTarget.checked ? "1" : null)}
        />
        <Switch
          label="Show corrections"
          checked={filter.corrections}
          onChange={(event) => set("corrections", event.currentTarget.checked ? null : "0")}
        />
      </Group>
      <SnoozeList onEnd={view.reload} />
      <QueryResult
        query={{
          data: view.loading && view.alerts.length === 0 ? undefined : view.alerts,
          error: view.error,
          isPending: view.loading,
          refetch: view.reload,
        }}
      >
        {(alerts) =>
          alerts.length === 0 && view.continuation.next === null ? (
            <EmptyState>
              {outage
                ? "No alerts. The detector is not evaluating payments."
                : "No alerts yet. New alerts appear here."}
            </EmptyState>
          ) : (
            <>
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
                    onSnoozed={() => {
                      setOpen(null);
                      view.reload();
                    }}
                  />
                ))}
              </ol>
              <OlderAlerts view={view} />
            </>
          )
        }
      </QueryResult>
    </>
  );
}

/** The end of the list: the button for older alerts, and how far back the search went. */
function OlderAlerts({ view }: { view: AlertListView }) {
  const { next, searchedTo, missing } = view.continuation;
  return (
    <Group justify="center" mt="md" gap="sm">
      <Text size="sm" c="dimmed" role="status">
        {searchedTo !== null && (
          <>
            Searched back to <Timestamp ms={searchedTo} />
          </>
        )}
        {missing}
      </Text>
      {next !== null && (
        <Button variant="default" loading={view.loadingOlder} onClick={view.loadOlder}>
          Load older alerts
        </Button>
      )}
    </Group>
  );
}
