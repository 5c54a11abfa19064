import { Checkbox, Group, NativeSelect, Select, TextInput } from "@mantine/core";
import { AGGREGATES } from "../../aggregates";
import { toText } from "../../api/exactJson";
import type { RuleDocument } from "../../api/types";
import { DecimalInput } from "./DecimalInput";

interface Props {
  rule: RuleDocument;
  errorOf: (...members: string[]) => string | null;
  readOnly: boolean;
  change: (members: Record<string, unknown>) => void;
}

const COMPARABLE = Object.keys(AGGREGATES).filter((name) => AGGREGATES[name]?.comparable);

/** The baseline of a rule: the past of the same key, with which the rule compares its aggregate. */
export function BaselineFields({ rule, errorOf, readOnly, change }: Props) {
  const baseline = isObject(rule["baseline"]) ? rule["baseline"] : null;
  const edit = (members: Record<string, unknown>) => {
    change({ baseline: withoutUndefined({ ...baseline, ...members }) });
  };
  const inSeconds = baseline?.["windowSeconds"] !== undefined;
  const shared = { rule: baseline ?? {}, readOnly, change: edit };
  return (
    <>
      <Checkbox
        label="Compare with the past of the same key"
        checked={baseline !== null}
        disabled={readOnly}
        error={errorOf("baseline")}
        onChange={(event) => {
          change({ baseline: event.currentTarget.checked ? { windowMinutes: 1440 } : undefined });
        }}
      />
      {baseline !== null && (
        <Group grow gap="sm" align="flex-start" preventGrowOverflow={false}>
          <DecimalInput
            {...shared}
            name={inSeconds ? "windowSeconds" : "windowMinutes"}
            label="Baseline"
            error={errorOf("baseline.windowMinutes", "baseline.windowSeconds")}
          />
          <NativeSelect
            label="Baseline unit"
            data={["minutes", "seconds"]}
            value={inSeconds ? "seconds" : "minutes"}
            disabled={readOnly}
            onChange={(event) => {
              const value = baseline["windowMinutes"] ?? baseline["windowSeconds"] ?? "";
              const seconds = event.currentTarget.value === "seconds";
              edit({ windowMinutes: seconds ? undefined : value, windowSeconds: seconds ? value : undefined });
            }}
            style={{ flexBasis: "6rem" }}
          />
          <Select
            label="Baseline aggregate"
            data={COMPARABLE}
            value={toText(baseline["aggregatorFunctionType"]) || null}
            error={errorOf("baseline.aggregatorFunctionType", "baseline.aggregateFieldName")}
            placeholder="As the rule"
            readOnly={readOnly}
            clearable
            clearButtonProps={{ "aria-label": "Clear baseline aggregate" }}
            onChange={(value) => edit({ aggregatorFunctionType: value ?? undefined })}
            style={{ flexBasis: "9rem" }}
          />
          <DecimalInput {...shared} name="minCount" label="Minimum count" error={errorOf("baseline.minCount")} />
          <TextInput
            label="Baseline filter"
            value={toText(baseline["filter"])}
            error={errorOf("baseline.filter")}
            placeholder="As the rule"
            readOnly={readOnly}
            onChange={(event) => edit({ filter: event.currentTarget.value || undefined })}
            style={{ flexBasis: "14rem" }}
          />
          <Checkbox
            label="Limit in standard deviations"
            checked={baseline["deviations"] === true}
            disabled={readOnly}
            error={errorOf("baseline.deviations")}
            onChange={(event) => edit({ deviations: event.currentTarget.checked || undefined })}
            style={{ alignSelf: "center" }}
          />
        </Group>
      )}
    </>
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !("isLosslessNumber" in value);
}

function withoutUndefined(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
