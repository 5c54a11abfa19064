import { Group, NumberInput, Select, Switch, TextInput } from "@mantine/core";
import { useState } from "react";
import { Choice } from "../components/Choice";
import { RuleSelect } from "../components/RuleSelect";
import { SeveritySelect } from "../components/SeveritySelect";
import { TypedText, useTyped } from "../components/TypedText";
import { type AlertFilter, SORTS, VERDICTS } from "./alertSearch";

interface Props {
  filter: AlertFilter;
  ruleNames: ReadonlyMap<number, string>;
  change: (members: Partial<AlertFilter>) => void;
}

const AGES = { "1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days", "30d": "Last 30 days" };
const RANGE = "range";
const UNIT_NAMES: Record<string, string> = { m: "minutes", h: "hours", d: "days" };

/** The filters and the order of the list of alerts. */
export function SearchFields({ filter, ruleNames, change }: Props) {
  return (
    <>
      <Group mb="xs" gap="xs" align="center">
        <RuleSelect names={ruleNames} value={filter.ruleId} change={(ruleId) => change({ ruleId })} />
        <TypedText
          label="Search by ID"
          title="The beginning of an ID, or a whole value of fewer than 3 characters"
          value={filter.text}
          change={(text) => change({ text })}
        />
        <SeveritySelect value={filter.severity} change={(severity) => change({ severity })} />
        <TimeRange filter={filter} change={change} />
        <Choice
          label="Verdict"
          none="Any verdict"
          names={VERDICTS}
          value={filter.verdict}
          change={(verdict) => change({ verdict })}
        />
        <Choice
          label="Kind"
          none="Live and shadow"
          names={{ false: "Live only", true: "Shadow only" }}
          value={filter.shadow === null ? "" : String(filter.shadow)}
          change={(shadow) => change({ shadow: shadow === "" ? null : shadow === "true" })}
        />
      </Group>
      <Group mb="sm" gap="xs" align="center">
        <Amount label="Minimum amount" value={filter.minAmount} change={(minAmount) => change({ minAmount })} />
        <Amount label="Maximum amount" value={filter.maxAmount} change={(maxAmount) => change({ maxAmount })} />
        <Select
          aria-label="Order"
          allowDeselect={false}
          data={Object.entries(SORTS).map(([value, label]) => ({ value, label }))}
          value={filter.sort}
          onChange={(sort) => change({ sort: sort ?? "newest" })}
          w="11rem"
        />
        <Switch
          label="Show snoozed"
          checked={filter.snoozed}
          onChange={(event) => change({ snoozed: event.currentTarget.checked })}
        />
        <Switch
          label="Show corrections"
          checked={filter.corrections}
          onChange={(event) => change({ corrections: event.currentTarget.checked })}
        />
      </Group>
    </>
  );
}

function Amount({ label, value, change }: { label: string; value: string; change: (value: string) => void }) {
  const [typed, setTyped] = useTyped(value, change);
  return (
    <NumberInput
      aria-label={label}
      placeholder={label}
      hideControls
      thousandSeparator=","
      value={typed}
      onChange={(next) => setTyped(String(next))}
      w="10rem"
    />
  );
}

/** An age such as the last hour, or a range between two times. */
function TimeRange({ filter, change }: Pick<Props, "filter" | "change">) {
  const [isRange, setRange] = useState(filter.until !== "" || /^\d+$/u.test(filter.since));
  return (
    <>
      <Select
        aria-label="Time"
        placeholder="Any time"
        clearable
        clearButtonProps={{ "aria-label": "Any time" }}
        data={timeChoices(filter.since)}
        value={isRange ? RANGE : filter.since || null}
        onChange={(value) => {
          setRange(value === RANGE);
          change({ since: value === null || value === RANGE ? "" : value, until: "" });
        }}
        w="10.5rem"
      />
      {isRange && (
        <>
          <TimeInput label="From" value={filter.since} change={(since) => change({ since })} />
          <TimeInput label="To" value={filter.until} change={(until) => change({ until })} />
        </>
      )}
    </>
  );
}

/** The choices of a time; a link can have an age that is not among them. */
function timeChoices(since: string) {
  const [, count, unit] = /^(\d+)([mhd])$/u.exec(since) ?? [];
  const other = count && unit && !(since in AGES) ? [[since, `Last ${count} ${UNIT_NAMES[unit] ?? ""}`] as const] : [];
  return [...Object.entries(AGES), ...other, [RANGE, "From … to …"] as const].map(([value, label]) => ({
    value,
    label,
  }));
}

function TimeInput({ label, value, change }: { label: string; value: string; change: (value: string) => void }) {
  return (
    <TextInput
      type="datetime-local"
      aria-label={label}
      value={/^\d+$/u.test(value) ? localTime(Number(value)) : ""}
      onChange={(event) => {
        const ms = new Date(event.currentTarget.value).getTime();
        change(Number.isNaN(ms) ? "" : String(ms));
      }}
    />
  );
}

/** A time in the form of the browser's input field, in local time. */
function localTime(ms: number): string {
  const at = new Date(ms);
  return new Date(ms - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
