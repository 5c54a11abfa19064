import { Table, Text } from "@mantine/core";
import type { WhatIfResult } from "../api/types";
import { formatDuration, formatKey, formatNumber } from "../format";

/** The number of alerts by window. */
export function WindowTable({ result }: { result: WhatIfResult }) {
  if (result.windowsMs.length === 0) return null;
  return (
    <Table aria-label="Alerts by window" mb="sm">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Window</Table.Th>
          <Table.Th ta="right">Alerts</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {result.windowsMs.map(([ms, fires]) => (
          <Table.Tr key={ms}>
            <Table.Td>{formatDuration(ms)}</Table.Td>
            <Table.Td ta="right" className="number">
              {formatNumber(fires)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

/** The keys with the most alerts. */
export function TopKeys({ result }: { result: WhatIfResult }) {
  if (result.busiest.length === 0) return <Text size="sm">No alerts for any key</Text>;
  return (
    <Table aria-label="Keys with the most alerts">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Key</Table.Th>
          <Table.Th ta="right">Alerts</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {result.busiest.slice(0, 6).map(([key, fires]) => (
          <Table.Tr key={formatKey(key)}>
            <Table.Td className="wrap">{formatKey(key)}</Table.Td>
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
