import { useRuleNames } from "../api/hooks";
import { AlertItem } from "./AlertItem";
import type { AlertListView } from "./useAlerts";

interface Props {
  label?: string;
  view: AlertListView;
  /** The id of the open alert, null if none is open. */
  open: string | null;
  setOpen: (alertId: string | null) => void;
  onSnoozed: () => void;
  /** The ids of the selected alerts. Without them, the alerts cannot be selected. */
  selected?: ReadonlySet<string>;
  setSelected?: (alertIds: ReadonlySet<string>) => void;
}

/** The alerts of a list. At most one is open. */
export function AlertItems({ label = "Alerts", view, open, setOpen, onSnoozed, selected, setSelected }: Props) {
  const names = useRuleNames();
  return (
    <ol aria-label={label} style={{ listStyle: "none", margin: 0, padding: 0, display: "grid", gap: "0.3125rem" }}>
      {view.alerts.map((alert) => (
        <AlertItem
          key={alert.alertId}
          alert={alert}
          name={names.get(alert.ruleId) ?? ""}
          isNew={view.newIds.has(alert.alertId)}
          isOpen={open === alert.alertId}
          onToggle={() => setOpen(open === alert.alertId ? null : alert.alertId)}
          onMark={view.setMark}
          onSnoozed={onSnoozed}
          {...(selected && setSelected
            ? { isSelected: selected.has(alert.alertId), onSelect: () => setSelected(toggled(selected, alert.alertId)) }
            : {})}
        />
      ))}
    </ol>
  );
}

function toggled(selected: ReadonlySet<string>, alertId: string): ReadonlySet<string> {
  return new Set(selected.has(alertId) ? [...selected].filter((each) => each !== alertId) : [...selected, alertId]);
}
