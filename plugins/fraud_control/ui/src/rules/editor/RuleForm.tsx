import {
  Autocomplete,
  Checkbox,
  Group,
  MultiSelect,
  NativeSelect,
  Select,
  Textarea,
  TextInput,
  VisuallyHidden,
} from "@mantine/core";
import { useState } from "react";
import { aggregateOf } from "../../aggregates";
import { toText } from "../../api/exactJson";
import type { Reason, RuleDocument, Schema } from "../../api/types";
import { fieldLabel, fieldOf } from "../../fields";
import { limitIsExpression } from "../../format";
import { SEVERITIES } from "../../severity";
import { BaselineFields } from "./BaselineFields";
import { filterSuggestions, type Lookups, whenSuggestions } from "./completion";
import { DecimalInput, parseTyped } from "./DecimalInput";
import { ExpressionField } from "./ExpressionField";
import { SamplePaymentInput } from "./SamplePaymentInput";
import { type ExpressionMember, useSamplePayment } from "./useSample";
import { WindowFields } from "./WindowFields";

interface Props {
  document: RuleDocument | null;
  schema: Schema;
  lookups: Lookups;
  reasons: readonly Reason[];
  /** Remarks that do not prevent a save. */
  warnings?: readonly Reason[];
  readOnly: boolean;
  change: (members: Record<string, unknown>) => void;
}

// Leaves room to type beside the selected values; a separate input line would stay empty.
const NARROW_FIELD = { inputField: { minWidth: "2rem", flexBasis: "2rem" } };
const BELOW: ("label" | "input" | "description" | "error")[] = ["label", "input", "description", "error"];
const GROUPED = new Set(["long", "string", "decimal", "boolean"]);
const ID_FIELD = "transactionId";

/** A form for the members of a rule. It works with every text format, and keeps members without a field here. */
export function RuleForm({ document, schema, lookups, reasons, warnings = [], readOnly, change }: Props) {
  const rule = document ?? {};
  const disabled = readOnly || document === null;
  const grouping = rule["groupingKeyNames"];
  const isOneGroup = Array.isArray(grouping) && grouping.length === 0;
  const errorOf = (...members: string[]) =>
    reasons
      .filter((reason) => members.includes(reason.field))
      .map((reason) => reason.message)
      .join("; ") || null;
  const text = (name: string) => ({
    value: toText(rule[name]),
    error: errorOf(name),
    readOnly: disabled,
    onChange: (event: { currentTarget: { value: string } }) =>
      change({ [name]: event.currentTarget.value || undefined }),
  });
  const keys = schema.fields.filter(isKey);
  const members = [...schema.entities, ...keys];
  const measures = schema.fields.filter((field) => field.measure);
  const aggregator = toText(rule["aggregatorFunctionType"]);
  const input = aggregateOf(rule)?.input;
  const [byExpression, setByExpression] = useState(() => limitIsExpression(rule["limit"]));
  const hasExpression = byExpression || Boolean(rule["filter"]) || Boolean(rule["when"]);
  const payment = useSamplePayment(hasExpression && !readOnly);
  const expression = (member: ExpressionMember) => ({
    member,
    value: toText(rule[member]),
    error: errorOf(member),
    warning: warnings.find((each) => each.field === member)?.message ?? null,
    readOnly: disabled,
    sample: payment,
    change: (value: string) => change({ [member]: value || undefined }),
  });

  return (
    <fieldset style={{ border: 0, margin: 0, padding: 0, minWidth: 0, display: "grid", gap: "0.625rem" }}>
      <VisuallyHidden component="legend">Rule form</VisuallyHidden>
      <Group grow gap="sm" align="flex-start" preventGrowOverflow={false}>
        <TextInput label="Name" style={{ flexBasis: "14rem" }} {...text("name")} />
        <Autocomplete
          label="Severity"
          data={[...SEVERITIES].reverse()}
          value={toText(rule["severity"])}
          error={errorOf("severity")}
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
          data={fieldChoices(members, schema.fields, grouping)}
          description={fieldDescriptions(list(grouping), schema.fields)}
          inputWrapperOrder={BELOW}
          value={list(grouping)}
          error={errorOf("groupingKeyNames")}
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
          error={errorOf("aggregatorFunctionType")}
          readOnly={disabled}
          allowDeselect={false}
          searchable
          onChange={(value) => change({ aggregatorFunctionType: value ?? undefined })}
          style={{ flexBasis: "10rem" }}
        />
        {input === "UNIQUE" || list(rule["unique"]).length > 0 ? (
          <MultiSelect
            label="Distinct fields"
            data={fieldChoices(keys, schema.fields, rule["unique"])}
            value={list(rule["unique"])}
            error={errorOf("unique")}
            readOnly={disabled}
            searchable
            onChange={(value) => change({ unique: value })}
            styles={NARROW_FIELD}
            style={{ flexBasis: "12rem" }}
          />
        ) : (
          <Select
            label="Aggregated field"
            data={fieldChoices(measures, schema.fields, rule["aggregateFieldName"])}
            value={toText(rule["aggregateFieldName"]) || null}
            error={errorOf("aggregateFieldName")}
            readOnly={disabled}
            disabled={input === "ROWS"}
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
          value={toText(rule["limitOperatorType"]) || null}
          error={errorOf("limitOperatorType")}
          readOnly={disabled}
          allowDeselect={false}
          onChange={(value) => change({ limitOperatorType: value ?? undefined })}
          style={{ flexBasis: "6rem" }}
        />
        {!byExpression && (
          <DecimalInput
            name="limit"
            label="Limit"
            rule={rule}
            error={errorOf("limit")}
            readOnly={disabled}
            change={change}
          />
        )}
        <NativeSelect
          label="Limit type"
          data={["number", "expression"]}
          value={byExpression ? "expression" : "number"}
          disabled={disabled}
          onChange={(event) => setByExpression(event.currentTarget.value === "expression")}
          style={{ flexBasis: "7rem" }}
        />
        <WindowFields rule={rule} errorOf={errorOf} readOnly={disabled} change={change} />
      </Group>
      {byExpression && (
        <ExpressionField
          {...expression("limit")}
          label="Limit"
          placeholder="coalesce(paymentAmount * 2, 1000)"
          suggest={(before) => whenSuggestions(schema, lookups, before)}
          change={(value) => change({ limit: parseTyped(value) })}
        />
      )}
      <ExpressionField
        {...expression("filter")}
        label="Filter"
        placeholder="paymentType = 'CSH' and paymentAmount >= 10"
        suggest={(before) => filterSuggestions(schema, before)}
      />
      <ExpressionField
        {...expression("when")}
        label="Evaluated when"
        placeholder="paymentAmount > 500 (default: the payments that pass the filter)"
        suggest={(before) => whenSuggestions(schema, lookups, before)}
      />
      {hasExpression && payment.text !== undefined && <SamplePaymentInput payment={payment} />}
      <BaselineFields rule={rule} errorOf={errorOf} readOnly={disabled} change={change} />
      <Checkbox
        label="Warm up from past payments"
        checked={rule["warmUp"] === true}
        disabled={disabled}
        error={errorOf("warmUp")}
        onChange={(event) => change({ warmUp: event.currentTarget.checked || undefined })}
      />
      <Group grow gap="sm" align="flex-start" preventGrowOverflow={false}>
        <DecimalInput
          name="cooldownSeconds"
          label="Cool-down (s)"
          rule={rule}
          error={errorOf("cooldownSeconds")}
          readOnly={disabled}
          change={change}
        />
        <DecimalInput
          name="rolloutPercent"
          label="Rollout (% of keys)"
          rule={rule}
          error={errorOf("rolloutPercent")}
          readOnly={disabled}
          change={change}
        />
        <DecimalInput
          name="weight"
          label="Weight"
          rule={rule}
          error={errorOf("weight")}
          readOnly={disabled}
          change={change}
        />
        <Select
          label="Action"
          data={choices(schema.actions, rule["action"])}
          value={toText(rule["action"]) || "ALERT"}
          error={errorOf("action")}
          readOnly={disabled}
          allowDeselect={false}
          onChange={(value) => change({ action: value === "ALERT" ? undefined : (value ?? undefined) })}
          style={{ flexBasis: "9rem" }}
        />
      </Group>
    </fieldset>
  );
}

/** Whether the form suggests a field for groups: an id, a text or a number, but not the id of the payment itself. */
function isKey(field: Schema["fields"][number]): boolean {
  return GROUPED.has(field.type) && field.name !== ID_FIELD;
}

/** The suggested fields and entities and the current ones, with their labels. */
function fieldChoices(suggested: readonly { name: string }[], all: Schema["fields"], current: unknown) {
  return choices(
    suggested.map((field) => field.name),
    current,
  ).map((name) => {
    const label = fieldLabel(name, all);
    return { value: name, label: label === name ? name : `${label} (${name})` };
  });
}

/** The descriptions of fields; null without any. */
function fieldDescriptions(names: readonly string[], fields: Schema["fields"]): string | null {
  const texts = names.flatMap((name) => {
    const field = fieldOf(name, fields);
    return field?.description ? [`${field.label || name}: ${field.description}`] : [];
  });
  return texts.join(" ") || null;
}

function list(value: unknown): string[] {
  return Array.isArray(value) ? [...new Set(value.map(toText))] : [];
}

export /** The options of a list, including the current values even if they are not allowed. */
function choices(options: readonly string[], current: unknown): string[] {
  const values = Array.isArray(current) ? current.map(toText) : [toText(current)];
  return [...new Set([...options, ...values])].filter(Boolean);
}
