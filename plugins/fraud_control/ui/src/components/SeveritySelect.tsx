import { MultiSelect } from "@mantine/core";
import { SEVERITIES } from "../alerts/alertSearch";

interface Props {
  value: readonly string[];
  change: (severity: string[]) => void;
}

/** A choice of several severities; none selects every severity. */
export function SeveritySelect({ value, change }: Props) {
  return (
    <MultiSelect
      aria-label="Severity"
      placeholder={value.length === 0 ? "Any severity" : ""}
      clearable
      clearButtonProps={{ "aria-label": "Any severity" }}
      data={Object.entries(SEVERITIES).map(([value, label]) => ({ value, label }))}
      value={[...value]}
      onChange={change}
      style={{ flex: "1 1 10rem", maxWidth: "18rem" }}
    />
  );
}
