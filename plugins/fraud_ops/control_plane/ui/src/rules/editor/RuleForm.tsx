import {
  Autocomplete,
  Checkbox,
  Group,
  InputWrapper,
  MultiSelect,
  NativeSelect,
  Select,
  Textarea,
  TextInput,
} from "@mantine/core";
import { isNumeric, numberOf, shown } from "../../api/exactJson";
import type { Reason, RuleDocument, Schema } from "../../api/types";
import { filterOffers } from "./completion";
import { CodeEditor } from "./CodeEditor";

interface Props {
  document: RuleDocument | null;
  schema: Schema;
  reasons: readonly Reason[];
  readOnly: boolean;
  change: (members: Record<string, unknown>) => void;
}

const SEVERITIES = ["low", "medium", "high", "critical"];
// Beside what is chosen there is room to type; a line of its own would stay empty.
const NARROW_FIELD = { inputField: { minWidth: "2rem", flexBasis: "2rem" } };
const NUMERIC = new Set(["long", "decimal"]);

/** A rule by its members. Says what it is in any of the forms; what it does not show stays as it is. */
export function RuleForm({ document, schema, reasons, readOnly, change }: Props) {
  const rule = document ?? {};
  const disabled = readOnly || document === null;
  const grouping = rule["groupingKeyNames"];
  const isOneGroup = Array.isArray(grouping) && grouping.length === 0;
  const wrong = (...members: string[]) =>
    reasons
      .filter((reason) => members.includes(reason.field))
      .map((reason) => reason.message)
      .join("; ") || null;
  const text = (name: string) => ({
    value: shown(rule[name]),
    error: wrong(name),
    readOnly: disabled,
    onChange: (event: { currentTarget: { value: string } }) =>
      change({ [name]: event.currentTarget.value || undefined }),
  });
  const fields = schema.fields.map((field) => field.name);
  const numeric = schema.fields.filter((field) => NUMERIC.has(field.type)).map((field) => field.name);
  const aggregator = shown(rule["aggregatorFunctionType"]);
  const counts = aggregator.startsWith("COUNT");
  const inSeconds = rule["windowSeconds"] !== undefined;

  return (
    <fieldset style={{ border: 0, margin: 0, padding: 0, minWidth: 0, display: "grid", gap: "0.625rem" }}>
      <legend
        className="mantine-visually-hidden"
        style={{ position: "absolute", width: 1, height: 1, overflow: "hidden" }}
      >
        Rule form
      </legend>
      <Group grow gap="sm" align="flex-start" preventGrowOverflow={false}>
        <TextInput label="Name" style={{ flexBasis: "14rem" }} {...text("name")} />
        <Autocomplete
          label="Severity"
          data={SEVERITIES}
          value={shown(rule["severity"])}
          error={wrong("severity")}
          readOnly={disabled}
          onChange={(value) => change({ severity: value || undefined })}
          style={{ flexBasis: "7rem" }}
        />
        <TextInput label="Owner" style={{ flexBasis: "9rem" }} {...text("owner")} />
      </Group>
      <Textarea label="Description" autosize minRows={1} maxRows={4} {...text("description")} />
      <Group grow gap="sm" align="flex-start" preventGrowOverflow={false}>
        <MultiSelect
          label="Grouping keys"
          data={choices(fields, grouping)}
          value={list(grouping)}
          error={wrong("groupingKeyNames")}
          readOnly={disabled || isOneGroup}
          onChange={(value) => change({ groupingKeyNames: value.length > 0 ? value : null })}
          searchable
          styles={NARROW_FIELD}
          style={{ flexBasis: "16rem" }}
        />
        <Checkbox
          label="All payments as one group"
          checked={isOneGroup}
          disabled={disabled}
          onChange={(event) => change({ groupingKeyNames: event.currentTarget.checked ? [] : null })}
          mt="1.9rem"
          style={{ flexBasis: "13rem" }}
        />
        <Select
          label="Aggregate"
          data={choices(schema.aggregators, aggregator)}
          value={aggregator || null}
          error={wrong("aggregatorFunctionType")}
          readOnly={disabled}
          allowDeselect={false}
          searchable
          onChange={(value) => change({ aggregatorFunctionType: value ?? undefined })}
          style={{ flexBasis: "10rem" }}
        />
        {aggregator === "COUNT_DISTINCT" || list(rule["unique"]).length > 0 ? (
          <MultiSelect
            label="Distinct fields"
            data={choices(fields, rule["unique"])}
            value={list(rule["unique"])}
            error={wrong("unique")}
            readOnly={disabled}
            searchable
            onChange={(value) => change({ unique: value })}
            styles={NARROW_FIELD}
            style={{ flexBasis: "12rem" }}
          />
        ) : (
          <Select
            label="Aggregated field"
            data={choices(numeric, rule["aggregateFieldName"])}
            value={shown(rule["aggregateFieldName"]) || null}
            error={wrong("aggregateFieldName")}
            readOnly={disabled}
            disabled={counts}
            searchable
            clearable
            clearButtonProps={{ "aria-label": "Clear field" }}
            onChange={(value) => change({ aggregateFieldName: value ?? undefined })}
            style={{ flexBasis: "12rem" }}
          />
        )}
      </Group>
      <Group grow gap="sm" align="flex-start" preventGrowOverflow={false}>
        <Select
          label="Comparison"
          data={choices(schema.operators, rule["limitOperatorType"])}
          value={shown(rule["limitOperatorType"]) || null}
          error={wrong("limitOperatorType")}
          readOnly={disabled}
          allowDeselect={false}
          onChange={(value) => change({ limitOperatorType: value ?? undefined })}
          style={{ flexBasis: "6rem" }}
        />
        <Decimal name="limit" label="Limit" rule={rule} error={wrong("limit")} readOnly={disabled} change={change} />
        <Decimal
          name={inSeconds ? "windowSeconds" : "windowMinutes"}
          label="Window"
          rule={rule}
          error={wrong("windowMinutes", "windowSeconds")}
          readOnly={disabled}
          change={change}
        />
        <NativeSelect
          label="Unit"
          data={["minutes", "seconds"]}
          value={inSeconds ? "seconds" : "minutes"}
          disabled={disabled}
          onChange={(event) => {
            const value = rule["windowMinutes"] ?? rule["windowSeconds"];
            const seconds = event.currentTarget.value === "seconds";
            change({ windowMinutes: seconds ? undefined : value, windowSeconds: seconds ? (value ?? "") : undefined });
          }}
          style={{ flexBasis: "6rem" }}
        />
      </Group>
      <InputWrapper label="Filter" error={wrong("filter")} labelElement="div">
        <CodeEditor
          label="Filter"
          value={shown(rule["filter"])}
          onChange={(value) => change({ filter: value || undefined })}
          offers={() => filterOffers(schema)}
          invalid={wrong("filter") !== null}
          readOnly={disabled}
          oneLine
          placeholder="paymentType = 'CSH' and paymentAmount >= 10"
        />
      </InputWrapper>
      <Group grow gap="sm" align="flex-start" preventGrowOverflow={false}>
        <Decimal
          name="cooldownSeconds"
          label="Cool-down (s)"
          rule={rule}
          error={wrong("cooldownSeconds")}
          readOnly={disabled}
          change={change}
        />
        <Select
          label="Action"
          data={choices(schema.actions, rule["action"])}
          value={shown(rule["action"]) || "ALERT"}
          error={wrong("action")}
          readOnly={disabled}
          allowDeselect={false}
          onChange={(value) => change({ action: value === "ALERT" ? undefined : (value ?? undefined) })}
          style={{ flexBasis: "9rem" }}
        />
      </Group>
    </fieldset>
  );
}

interface DecimalProps {
  name: string;
  label: string;
  rule: RuleDocument;
  error: string | null;
  readOnly: boolean;
  change: (members: Record<string, unknown>) => void;
}

/** A number as people type it: kept as text until it is one, so that a trailing point is not eaten. */
function Decimal({ name, label, rule, error, readOnly, change }: DecimalProps) {
  return (
    <TextInput
      label={label}
      inputMode="decimal"
      value={shown(rule[name])}
      error={error}
      readOnly={readOnly}
      onChange={(event) => change({ [name]: typed(event.currentTarget.value) })}
      style={{ flexBasis: "7rem" }}
    />
  );
}

/** A number where the text is one that comes back as it was typed; else the text, for the server to judge. */
export function typed(text: string): unknown {
  if (text === "") return undefined;
  if (!/^-?(0|[1-9]\d*)(\.\d+)?$/u.test(text)) return text;
  const value = numberOf(text);
  return isNumeric(value) && shown(value) === text ? value : text;
}

function list(value: unknown): string[] {
  return Array.isArray(value) ? [...new Set(value.map(shown))] : [];
}

/** What can be chosen, and what is there already, whether it can be chosen or not. */
function choices(offered: readonly string[], there: unknown): string[] {
  const given = Array.isArray(there) ? there.map(shown) : [shown(there)];
  return [...new Set([...offered, ...given])].filter(Boolean);
}
