import { Select } from "@mantine/core";

/** A choice from a few names, or none of them (""). */
export function Choice({
  label,
  none,
  names,
  value,
  change,
}: {
  label: string;
  none: string;
  names: Record<string, string>;
  value: string;
  change: (value: string) => void;
}) {
  return (
    <Select
      aria-label={label}
      placeholder={none}
      clearable
      clearButtonProps={{ "aria-label": none }}
      data={Object.entries(names).map(([name, shown]) => ({ value: name, label: shown }))}
      value={value === "" ? null : value}
      onChange={(chosen) => change(chosen ?? "")}
      w="10.5rem"
    />
  );
}
