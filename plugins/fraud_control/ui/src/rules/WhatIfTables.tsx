import { Table, Text } from "@mantine/core";
import { useSchema } from "../api/hooks";
import type { WhatIfResult } from "../api/types";
import { formatDuration, formatKey, formatNumber } from "../format";

/** The number of alerts by window. */
export function WindowTable({ result }: { result: WhatIfResult }) {
  if (result.windowsMs.length === 0) return null;
  const rows = result.windowsMs.map(([ms, fires]): Row => [formatDuration(ms), fires]);
  return <AlertCounts label="Alerts by window" of="Window" rows={rows} mb="sm" />;
}

/** The keys with the most alerts. */
export function TopKeys({ result }: { result: WhatIfResult }) {
  const fields = useSchema().data?.fields;
  if (result.busiest.length === 0) return <Text size="sm">No alerts for any key</Text>;
  const rows = result.busiest.slice(0, 6).map(([key, fires]): Row => [formatKey(key, fields), fires]);
  return <AlertCounts label="Keys with the most alerts" of="Key" rows={rows} />;
}

type Row = readonly [string, number];

interface CountsProps {
  label: string;
  of: string;
  rows: readonly Row[];
  mb?: string;
}

function AlertCounts({ label, of, rows, mb = "0" }: CountsProps) {
  return (
    <Table aria-label={label} mb={mb}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>{of}</Table.Th>
          <Table.Th ta="right">Alerts</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map(([name, fires]) => (
          <Table.Tr key={name}>
            <Table.Td className="wrap">{name}</Table.Td>
            <Table.Td ta="right" className="number">
              {formatNumber(fires)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

/** The rules in force that alert on the same transactions. */
export function OverlapTable({ result }: { result: WhatIfResult }) {
  const overlapping = result.overlap.filter((each) => each.both > 0);
  if (overlapping.length === 0) return null;
  return (
    <section className="panel wide" aria-label="Overlap">
      <Table aria-label="Overlap with rules in force">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Rule in force</Table.Th>
            <Table.Th ta="right">Alerts</Table.Th>
            <Table.Th ta="right">Same transaction</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {overlapping.map((each) => (
            <Table.Tr key={each.ruleId}>
              <Table.Td className="wrap">
                {each.ruleId} {each.name}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {formatNumber(each.alerts)}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {formatNumber(each.both)}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </section>
  );
}
