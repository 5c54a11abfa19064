import { Button, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { shown } from "../api/exactJson";
import { get, query } from "../api/http";
import { keys } from "../api/keys";
import type { Evidence } from "../api/types";
import { time } from "../parts/format";
import { ScrolledTable } from "../parts/ScrolledTable";
import { Shown } from "../parts/Told";
import type { Alert } from "./types";

/** The transactions that made up an alert's window, read when asked for. */
export function EvidencePanel({ alertId, position }: Pick<Alert, "alertId" | "position">) {
  const [asked, setAsked] = useState(false);
  const evidence = useQuery({
    queryKey: keys.evidence(alertId),
    queryFn: ({ signal }) => get<Evidence>(`/alerts/${alertId}/evidence${query({ position })}`, signal),
    enabled: asked,
    staleTime: Infinity,
  });
  if (!asked) {
    return (
      <Button variant="default" onClick={() => setAsked(true)}>
        Show transactions in window
      </Button>
    );
  }
  return <Shown of={evidence}>{(data) => <Transactions evidence={data} />}</Shown>;
}

function Transactions({ evidence }: { evidence: Evidence }) {
  const fields = [...new Set(evidence.transactions.flatMap((each) => Object.keys(each)))];
  return (
    <>
      <Text size="sm" role="status">
        {evidence.transactions.length} of {evidence.count} transactions
        {evidence.missing && `: ${evidence.missing}`}
      </Text>
      {evidence.transactions.length > 0 && (
        <ScrolledTable label="Transactions in window" columns={fields}>
          {evidence.transactions.map((transaction, i) => (
            <Table.Tr key={i}>
              {fields.map((field) => (
                <Table.Td key={field} className="number">
                  {cell(field, transaction[field])}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </ScrolledTable>
      )}
    </>
  );
}

function cell(field: string, value: unknown): string {
  return typeof value === "number" && /Time(stamp)?$/u.test(field) ? time(value) : shown(value);
}
