import { Button, Checkbox, Group } from "@mantine/core";
import { memo } from "react";
import { Link } from "react-router";
import { toText } from "../api/exactJson";
import { useCan, useSchema } from "../api/hooks";
import { Chip } from "../components/Chip";
import { CopyButton } from "../components/CopyButton";
import { Fact } from "../components/Fact";
import { FieldValue } from "../components/FieldValue";
import { RuleText } from "../components/RuleText";
import { SeverityChip } from "../components/SeverityChip";
import { Timestamp } from "../components/Timestamp";
import { amountField, fieldLabel, type Fields } from "../fields";
import { formatDuration, formatKey, formatNumber, formatTime } from "../format";
import { limitText, valueText, withUnit } from "../measure";
import { severityLevel } from "../severity";
import { AlertLinks } from "./AlertLinks";
import { BaselineFacts } from "./BaselineFacts";
import { ConditionTable } from "./ConditionTable";
import { EvidencePanel } from "./EvidencePanel";
import { ProofLink } from "./ProofLink";
import { historyMatters } from "./shortHistory";
import { SnoozeButton } from "./SnoozeButton";
import type { Alert, Mark } from "./types";
import { useMarkAlert } from "./useMarkAlert";

const NO_FIELDS: Fields = [];

interface Props {
  alert: Alert;
  name: string;
  isNew: boolean;
  isOpen: boolean;
  onToggle: () => void;
  onMark: (alertId: string, onMark: Mark | null) => void;
  /** Called after alerts like this one are snoozed. */
  onSnoozed: () => void;
  isSelected?: boolean;
  /** Selects the alert, or ends its selection. Without it, the alert has no checkbox. */
  onSelect?: () => void;
}

/** One alert: rule, key and value. When open, it shows all fields, actions and evidence. */
export const AlertItem = memo(function AlertItem({
  alert,
  name,
  isNew,
  isOpen,
  onToggle,
  onMark,
  onSnoozed,
  isSelected = false,
  onSelect,
}: Props) {
  const rule = alert.violatedRule;
  const fields = useSchema().data?.fields ?? NO_FIELDS;
  const limit = limitText(rule, alert.baseline, fields, alert.limit);
  return (
    <li
      className={isNew ? "alert fresh" : "alert"}
      data-shadow={alert.shadow}
      data-severity={severityLevel(rule["severity"])}
      data-selectable={onSelect !== undefined}
      data-retracted={alert.correction?.kind === "RETRACTED"}
    >
      {onSelect && (
        <Checkbox
          className="alert-select"
          checked={isSelected}
          onChange={onSelect}
          aria-label={`Select alert ${formatKey(alert.key, fields)}, ${formatTime(alert.appendTime)}`}
        />
      )}
      <button type="button" className="alert-head" data-alert={alert.alertId} aria-expanded={isOpen} onClick={onToggle}>
        <Timestamp ms={alert.appendTime} />
        <span>
          <SeverityChip severity={toText(rule["severity"])} />
        </span>
        <strong className="clamp alert-what" title={toText(rule["name"]) || name}>
          {alert.ruleId} {toText(rule["name"]) || name}
        </strong>
        <span className="clamp number" title={formatKey(alert.key, fields)}>
          {formatKey(alert.key, fields)}
        </span>
        <span className="clamp number">
          <strong>{valueText(rule, alert.triggeringValue, fields)}</strong> <span title={limit}>{limit}</span>{" "}
          <PaymentAmount alert={alert} fields={fields} />
        </span>
        <Badges alert={alert} fields={fields} />
      </button>
      {isOpen && <Details alert={alert} onMark={onMark} onSnoozed={onSnoozed} />}
    </li>
  );
});

/** The amount of the payment that triggered the alert. */
function PaymentAmount({ alert, fields }: { alert: Alert; fields: Fields }) {
  const amount = amountField(fields);
  const text = amount ? toText(alert.triggeringEvent[amount.name]) : "";
  if (!amount || text === "") return null;
  return (
    <span className="dimmed small">
      {fieldLabel(amount.name, fields)} {withUnit(text, amount)}
    </span>
  );
}

function Badges({ alert, fields }: { alert: Alert; fields: Fields }) {
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
      {historyMatters(alert, fields) && (
        <Chip title="The history of this key is shorter than the window. More history could change this result.">
          Short history
        </Chip>
      )}
    </span>
  );
}

type DetailsProps = Pick<Props, "alert" | "onMark" | "onSnoozed">;

function Details({ alert, onMark, onSnoozed }: DetailsProps) {
  const fields = useSchema().data?.fields ?? NO_FIELDS;
  return (
    <div className="alert-body">
      <p style={{ margin: "0 0 0.75rem" }}>
        <RuleText rule={alert.violatedRule} withLine />{" "}
        <Link to={`/rules/${alert.ruleId}?tab=versions&log=${alert.ruleVersion}`}>
          Rule version that fired ({alert.ruleVersion})
        </Link>
      </p>
      <dl className="facts">
        <Fact name="Window">
          <Timestamp ms={alert.windowStart} /> to <Timestamp ms={alert.windowEnd} />
        </Fact>
        {alert.role !== undefined && alert.role !== null && <Fact name="Role">{alert.role}</Fact>}
        <Fact name="Transactions in window">{formatNumber(alert.windowCount)}</Fact>
        {alert.baseline && <BaselineFacts alert={alert} baseline={alert.baseline} />}
        {alert.lists && (
          <Fact name="List versions">
            {Object.entries(alert.lists)
              .map(([name, listVersion]) => `${name} ${listVersion}`)
              .join(", ")}
          </Fact>
        )}
        {Object.entries(alert.previous ?? {}).map(([field, value]) => (
          <Fact key={`previous ${field}`} name={`Previous payment: ${fieldLabel(field, fields)}`}>
            {value === null ? "none" : <FieldValue name={field} value={value} fields={fields} />}
          </Fact>
        ))}
        {alert.suppressed > 0 && <Fact name="Suppressed since previous alert">{formatNumber(alert.suppressed)}</Fact>}
        <Fact name="Arrival to alert">{formatDuration(Math.max(0, alert.appendTime - alert.ingestionTime))}</Fact>
        {Object.entries(alert.triggeringEvent).map(([field, value]) => (
          <Fact key={field} name={fieldLabel(field, fields)}>
            <FieldValue name={field} value={value} fields={fields} />
            {field === "transactionId" && <CopyButton name="transaction ID" value={toText(value)} />}
          </Fact>
        ))}
      </dl>
      {alert.conditions && <ConditionTable alert={alert} />}
      <AlertLinks alert={alert} />
      <Actions alert={alert} onMark={onMark} onSnoozed={onSnoozed} />
      <EvidencePanel alertId={alert.alertId} position={alert.position} />
    </div>
  );
}

function Actions({ alert, onMark, onSnoozed }: DetailsProps) {
  const can = useCan();
  const saveMark = useMarkAlert();
  const toggleVerdict = (verdict: Mark["verdict"]) => {
    const next = alert.mark?.verdict === verdict ? null : verdict;
    saveMark.mutate(
      { alert, verdict: next },
      { onSuccess: ({ body }) => onMark(alert.alertId, next === null ? null : body) },
    );
  };
  return (
    <Group gap="xs" my="sm">
      {can("mark") && (
        <>
          <Button
            variant={alert.mark?.verdict === "FRAUD" ? "filled" : "default"}
            color="red.9"
            aria-pressed={alert.mark?.verdict === "FRAUD"}
            disabled={saveMark.isPending}
            onClick={() => toggleVerdict("FRAUD")}
          >
            Fraud
          </Button>
          <Button
            variant={alert.mark?.verdict === "NOT_FRAUD" ? "filled" : "default"}
            color="teal.9"
            aria-pressed={alert.mark?.verdict === "NOT_FRAUD"}
            disabled={saveMark.isPending}
            onClick={() => toggleVerdict("NOT_FRAUD")}
          >
            Not fraud
          </Button>
        </>
      )}
      {can("snooze") && <SnoozeButton ruleId={alert.ruleId} alertKey={alert.key} onSnoozed={onSnoozed} />}
      <ProofLink alert={alert} />
      {alert.mark && (
        <span style={{ color: "var(--mantine-color-dimmed)", fontSize: "0.75rem" }}>
          Marked by {alert.mark.who}, <Timestamp ms={alert.mark.at} />
        </span>
      )}
    </Group>
  );
}
