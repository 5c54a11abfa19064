import { Button, Group } from "@mantine/core";
import { memo } from "react";
import { Link } from "react-router";
import { shown } from "../api/exactJson";
import { useChange, useCan } from "../api/hooks";
import { query } from "../api/http";
import { At } from "../parts/At";
import { Chip } from "../parts/Chip";
import { duration, formula, keyText, number } from "../parts/format";
import { EvidencePanel } from "./EvidencePanel";
import { SnoozeButton } from "./SnoozeButton";
import type { Alert, Mark } from "./types";

interface Props {
  alert: Alert;
  name: string;
  fresh: boolean;
  open: boolean;
  toggle: () => void;
  mark: (alertId: string, mark: Mark | null) => void;
  /** Called once alerts like this one are snoozed. */
  snoozed: () => void;
}

/** One alert: what fired, for whom, and by how much; opened, everything about it. */
export const AlertItem = memo(function AlertItem({ alert, name, fresh, open, toggle, mark, snoozed }: Props) {
  const rule = alert.violatedRule;
  return (
    <li
      className={fresh ? "alert fresh" : "alert"}
      data-shadow={alert.shadow}
      data-retracted={alert.correction?.kind === "RETRACTED"}
    >
      <button type="button" className="alert-head" aria-expanded={open} onClick={toggle}>
        <At ms={alert.appendTime} />
        <span className="wrap alert-what">
          <strong>
            {alert.ruleId} {shown(rule["name"]) || name}
          </strong>
        </span>
        <span className="wrap number">{keyText(alert.key)}</span>
        <span className="number wrap">
          <strong>{alert.triggeringValue}</strong> {shown(rule["limitOperatorType"])} {shown(rule["limit"])}
        </span>
        <Badges alert={alert} />
      </button>
      {open && <Details alert={alert} mark={mark} snoozed={snoozed} />}
    </li>
  );
});

function Badges({ alert }: { alert: Alert }) {
  return (
    <span style={{ display: "flex", flexWrap: "wrap", gap: 4 }}>
      {alert.shadow && <Chip tone="shadow">Shadow</Chip>}
      {alert.correction?.kind === "RETRACTED" && (
        <Chip tone="quiet" title="Nightly re-evaluation: the rule does not fire on the complete data">
          Retracted
        </Chip>
      )}
      {alert.correction?.kind === "ADDED" && (
        <Chip tone="warn" title="Nightly re-evaluation: the rule fires on the complete data">
          Added later
        </Chip>
      )}
      {alert.mark && (
        <Chip tone={alert.mark.verdict === "FRAUD" ? "bad" : "good"}>
          {alert.mark.verdict === "FRAUD" ? "Fraud" : "Not fraud"}
        </Chip>
      )}
      {alert.snoozed && <Chip>Snoozed</Chip>}
      {!alert.windowComplete && (
        <Chip tone="warn" title="The history of this key is shorter than the window">
          Short history
        </Chip>
      )}
    </span>
  );
}

type Acted = Pick<Props, "alert" | "mark" | "snoozed">;

function Details({ alert, mark, snoozed }: Acted) {
  return (
    <div className="alert-body">
      <p className="code" style={{ margin: "0 0 0.75rem" }}>
        {formula(alert.violatedRule)}
        {alert.violatedRule["filter"] ? `, where ${shown(alert.violatedRule["filter"])}` : ""} ·{" "}
        <Link to={`/rules/${alert.ruleId}?tab=versions&log=${alert.ruleVersion}`}>
          Rule version that fired ({alert.ruleVersion})
        </Link>
      </p>
      <dl className="facts">
        <Fact name="Window">
          <At ms={alert.windowStart} /> to <At ms={alert.windowEnd} />
        </Fact>
        <Fact name="Transactions in window">{number(alert.windowCount)}</Fact>
        {alert.suppressed > 0 && <Fact name="Suppressed since previous alert">{number(alert.suppressed)}</Fact>}
        <Fact name="Arrival to alert">{duration(Math.max(0, alert.appendTime - alert.ingestionTime))}</Fact>
        {Object.entries(alert.triggeringEvent).map(([field, value]) => (
          <Fact key={field} name={field}>
            {/Time(stamp)?$/u.test(field) && typeof value === "number" ? <At ms={value} /> : shown(value)}
          </Fact>
        ))}
      </dl>
      <Actions alert={alert} mark={mark} snoozed={snoozed} />
      <EvidencePanel alertId={alert.alertId} position={alert.position} />
    </div>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Actions({ alert, mark, snoozed }: Acted) {
  const can = useCan();
  const change = useChange<Mark["verdict"] | null, Mark | null>((verdict) => ({
    ...(verdict === null
      ? { path: `/alerts/${alert.alertId}/mark`, method: "DELETE" as const }
      : {
          path: `/alerts/${alert.alertId}/mark${query({ position: alert.position })}`,
          method: "PUT" as const,
          body: { verdict },
        }),
  }));
  const say = (verdict: Mark["verdict"]) => {
    const next = alert.mark?.verdict === verdict ? null : verdict;
    change.mutate(next, { onSuccess: ({ body }) => mark(alert.alertId, next === null ? null : body) });
  };
  return (
    <Group gap="xs" my="sm">
      {can("mark") && (
        <>
          <Button
            variant={alert.mark?.verdict === "FRAUD" ? "filled" : "default"}
            color="red.9"
            aria-pressed={alert.mark?.verdict === "FRAUD"}
            disabled={change.isPending}
            onClick={() => say("FRAUD")}
          >
            Fraud
          </Button>
          <Button
            variant={alert.mark?.verdict === "NOT_FRAUD" ? "filled" : "default"}
            color="teal.9"
            aria-pressed={alert.mark?.verdict === "NOT_FRAUD"}
            disabled={change.isPending}
            onClick={() => say("NOT_FRAUD")}
          >
            Not fraud
          </Button>
        </>
      )}
      {can("snooze") && <SnoozeButton ruleId={alert.ruleId} alertKey={alert.key} snoozed={snoozed} />}
      {alert.mark && (
        <span style={{ color: "var(--mantine-color-dimmed)", fontSize: "0.75rem" }}>
          Marked by {alert.mark.who}, <At ms={alert.mark.at} />
        </span>
      )}
    </Group>
  );
}
