import { Autocomplete, NativeSelect } from "@mantine/core";
import { toText } from "../../api/exactJson";
import type { RuleDocument } from "../../api/types";
import { CALENDARS, TIME_ZONES } from "../../calendar";
import { DecimalInput } from "./DecimalInput";

interface Props {
  rule: RuleDocument;
  errorOf: (...members: string[]) => string | null;
  readOnly: boolean;
  change: (members: Record<string, unknown>) => void;
}

const UNITS = [
  { value: "minutes", label: "minutes" },
  { value: "seconds", label: "seconds" },
  ...CALENDARS.map((value) => ({ value, label: `calendar ${value.toLowerCase()}` })),
];

/** The window of a rule: a length of time, in steps if it is long, or a period of the calendar in a time zone. */
export function WindowFields({ rule, errorOf, readOnly, change }: Props) {
  const calendar = toText(rule["windowCalendar"]);
  const inSeconds = rule["windowSeconds"] !== undefined;
  const lengthUnit = inSeconds ? "seconds" : "minutes";
  return (
    <>
      {calendar === "" ? (
        <DecimalInput
          name={inSeconds ? "windowSeconds" : "windowMinutes"}
          label="Window"
          rule={rule}
          error={errorOf("windowMinutes", "windowSeconds", "windowCalendar", "zone")}
          readOnly={readOnly}
          change={change}
        />
      ) : (
        <Autocomplete
          label="Time zone"
          data={TIME_ZONES}
          limit={20}
          value={toText(rule["zone"])}
          placeholder="UTC"
          error={errorOf("windowMinutes", "windowSeconds", "windowCalendar", "zone")}
          readOnly={readOnly}
          onChange={(zone) => change({ zone: zone || undefined })}
          style={{ flexBasis: "10rem" }}
        />
      )}
      <NativeSelect
        label="Unit"
        data={UNITS}
        value={calendar || lengthUnit}
        disabled={readOnly}
        onChange={(event) => change(membersOf(event.currentTarget.value, rule))}
        style={{ flexBasis: "8rem" }}
      />
      {calendar === "" && (
        <DecimalInput
          name="resolutionSeconds"
          label="Steps (s)"
          rule={rule}
          error={errorOf("resolutionSeconds")}
          readOnly={readOnly}
          change={change}
        />
      )}
    </>
  );
}

/** The members of a window in another unit. Minutes and seconds keep the number, calendar periods the time zone. */
function membersOf(unit: string, rule: RuleDocument): Record<string, unknown> {
  const length = rule["windowMinutes"] ?? rule["windowSeconds"];
  const isLength = unit === "minutes" || unit === "seconds";
  return {
    windowMinutes: unit === "minutes" ? length : undefined,
    windowSeconds: unit === "seconds" ? (length ?? "") : undefined,
    windowCalendar: isLength ? undefined : unit,
    zone: isLength ? undefined : rule["zone"],
    resolutionSeconds: isLength ? rule["resolutionSeconds"] : undefined,
  };
}
