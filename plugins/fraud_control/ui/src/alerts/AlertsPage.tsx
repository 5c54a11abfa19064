import { Button, Group, Text } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { useCan, useRuleNames } from "../api/hooks";
import { BulkDialog } from "../cases/BulkDialog";
import { markShortcuts } from "../cases/markShortcuts";
import { SelectionMarks } from "../cases/SelectionMarks";
import { EmptyState } from "../components/EmptyState";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { focusedValue, moveFocus, type Shortcut, useShortcuts } from "../components/shortcuts";
import { ShortcutsHelp } from "../components/ShortcutsHelp";
import { Timestamp } from "../components/Timestamp";
import { formatCount } from "../format";
import { useOutage } from "../outage/useLiveness";
import { AlertItems } from "./AlertItems";
import { type AlertFilter, filterOf, parametersOf } from "./alertSearch";
import { ExportAlerts } from "./ExportAlerts";
import { FilterChips } from "./FilterChips";
import { LinkedAlert } from "./LinkedAlert";
import { SavedSearches } from "./SavedSearches";
import { SearchFields } from "./SearchFields";
import { SnoozeList } from "./SnoozeList";
import type { Mark } from "./types";
import { type AlertListView, queryOf, useAlerts } from "./useAlerts";
import { useMarkAlert } from "./useMarkAlert";

const ROWS = "button[data-alert]";
const SHORTCUTS: Shortcut[] = [
  { key: "j", name: "Next alert", run: () => moveFocus(ROWS, 1) },
  { key: "k", name: "Previous alert", run: () => moveFocus(ROWS, -1) },
  { key: "Enter", name: "Open or close alert" },
];

/**
 * New alerts as they arrive, newest first, or the alerts of a search. The list pauses while an alert is open or selected.
 * The address names the search and the open alert.
 */
export function AlertsPage() {
  usePageTitle("Alerts");
  const [params, setParams] = useSearchParams();
  const names = useRuleNames();
  const outage = useOutage();
  const [paused, setPaused] = useState(false);
  const [bulk, setBulk] = useState(false);
  const open = params.get("alert");
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const can = useCan();
  const filter = filterOf(params);
  const view = useAlerts(filter, paused || open !== null || selected.size > 0);
  const change = (members: Partial<AlertFilter>) =>
    setParams((old) => new URLSearchParams(parametersOf({ ...filterOf(old), ...members })), { replace: true });
  const setOpen = (alertId: string | null) =>
    setParams((old) => new URLSearchParams([...parametersOf(filterOf(old)), ...openedBy(alertId)]), { replace: true });
  const query = new URLSearchParams(parametersOf(filter)).toString();
  const saveMark = useMarkAlert();
  const markFocused = (verdict: Mark["verdict"]) => {
    const alert = view.alerts.find((each) => each.alertId === focusedValue("alert"));
    if (!alert || saveMark.isPending) return;
    saveMark.mutate({ alert, verdict }, { onSuccess: ({ body }) => view.setMark(alert.alertId, body) });
  };
  const shortcuts = can("mark") ? [...SHORTCUTS, ...markShortcuts("the alert", markFocused)] : SHORTCUTS;
  useShortcuts(shortcuts);

  return (
    <>
      <PageHeader title="Alerts">
        {view.newCount > 0 && (
          <Button
            variant="light"
            onClick={() => {
              setOpen(null);
              setSelected(new Set());
              setPaused(false);
            }}
          >
            Show {formatCount(view.newCount, "new alert")}
          </Button>
        )}
        <SavedSearches query={query} />
        <ExportAlerts query={query} />
        <Button
          variant="default"
          aria-pressed={paused}
          leftSection={paused ? <IconPlayerPlay size={14} aria-hidden /> : <IconPlayerPause size={14} aria-hidden />}
          onClick={() => setPaused(!paused)}
        >
          {paused ? "Resume" : "Pause"}
        </Button>
        <ShortcutsHelp shortcuts={shortcuts} />
      </PageHeader>
      <SearchFields filter={filter} ruleNames={names} change={change} />
      <FilterChips filter={filter} change={change} />
      <SnoozeList onEnd={view.reload} />
      {open !== null && !view.loading && !view.alerts.some((alert) => alert.alertId === open) && (
        <LinkedAlert key={open} alertId={open} close={() => setOpen(null)} />
      )}
      <QueryResult query={queryOf(view)}>
        {(alerts) =>
          alerts.length === 0 && view.continuation.next === null ? (
            <EmptyState>{emptyText(query !== "", Boolean(outage))}</EmptyState>
          ) : (
            <>
              {can("mark") && (
                <Button variant="default" mb="sm" onClick={() => setBulk(true)}>
                  Mark all that match …
                </Button>
              )}
              {bulk && (
                <BulkDialog subject="alert" query={query} close={() => setBulk(false)} onChanged={view.reload} />
              )}
              {can("mark") && <SelectionMarks selected={selected} setSelected={setSelected} onMarked={view.reload} />}
              <AlertItems
                view={view}
                open={open}
                setOpen={setOpen}
                onSnoozed={() => {
                  setOpen(null);
                  view.reload();
                }}
                {...(can("mark") ? { selected, setSelected } : {})}
              />
              <OlderAlerts view={view} />
            </>
          )
        }
      </QueryResult>
    </>
  );
}

/** The parameter of the address for the open alert. */
function openedBy(alertId: string | null): [string, string][] {
  return alertId === null ? [] : [["alert", alertId]];
}

function emptyText(isFiltered: boolean, isOutage: boolean): string {
  if (isFiltered) return "No matching alerts";
  return isOutage ? "No alerts. The detector is not evaluating payments." : "No alerts yet. New alerts appear here.";
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
