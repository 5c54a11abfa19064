import { Table } from "@mantine/core";
import { isNumeric, toText } from "../api/exactJson";
import type { Change } from "../api/types";
import { groupDigits } from "../ruleSentence";

/** The fields that differ, with the value before and after. */
export function ChangeTable({ changes }: { changes: readonly Change[] }) {
  if (changes.length === 0) return <p style={{ margin: "0.5rem 0" }}>No differences</p>;
  return (
    <div className="wide">
      <Table aria-label="Differences">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Field</Table.Th>
            <Table.Th>Before</Table.Th>
            <Table.Th>After</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {changes.map(({ field, before, after }) => (
            <Table.Tr key={field}>
              <Table.Td className="code">{field}</Table.Td>
              <Table.Td className="code">
                <ChangeValue value={shown(field, before)} removed />
              </Table.Td>
              <Table.Td className="code">
                <ChangeValue value={shown(field, after)} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

/** A number with thousands separators, unless it is an id or a time. */
function shown(field: string, value: unknown): unknown {
  return isNumeric(value) && !/(Id|At|Ms|ntil)$/u.test(field) ? groupDigits(toText(value)) : value;
}

function ChangeValue({ value, removed = false }: { value: unknown; removed?: boolean }) {
  if (value === null || value === undefined)
    return <span style={{ color: "var(--mantine-color-dimmed)" }}>not set</span>;
  const style = removed
    ? { background: "var(--bad-soft)", color: "var(--bad)" }
    : { background: "var(--good-soft)", color: "var(--good)" };
  const text = toText(value);
  const Tag = removed ? "del" : "ins";
  return <Tag style={{ ...style, textDecoration: "none", padding: "0 0.25rem" }}>{text === "" ? "(empty)" : text}</Tag>;
}
