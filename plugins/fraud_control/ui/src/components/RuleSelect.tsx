import { Select } from "@mantine/core";

interface Props {
  names: ReadonlyMap<number, string>;
  value: number | null;
  change: (ruleId: number | null) => void;
}

/** A choice of one rule, or of any rule (null). */
export function RuleSelect({ names, value, change }: Props) {
  return (
    <Select
      aria-label="Rule"
      placeholder="Any rule"
      searchable
      clearable
      clearButtonProps={{ "aria-label": "Any rule" }}
      limit={100}
      data={[...names].map(([id, name]) => ({ value: String(id), label: `${id} ${name}` }))}
      value={value === null ? null : String(value)}
      onChange={(chosen) => change(chosen === null ? null : Number(chosen))}
      style={{ flex: "1 1 12rem", maxWidth: "20rem" }}
    />
  );
}
