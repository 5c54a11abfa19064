import { Button, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { toText } from "../api/exactJson";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { Evidence } from "../api/types";
import { QueryResult } from "../components/QueryResult";
import { ScrollableTable } from "../components/ScrollableTable";
import { formatTime } from "../format";
import type { Alert } from "./types";

/** The transactions in an alert's window, read on request. */
export function EvidencePanel({ alertId, position }: Pick<Alert, "alertId" | "position">) {
  const [isOpen, setIsOpen] = useState(false);
  const evidence = useQuery({
    queryKey: keys.evidence(alertId),
    queryFn: ({ signal }) => get<Evidence>(`/alerts/${alertId}/evidence${queryString({ position })}`, signal),
    enabled: isOpen,
    staleTime: Infinity,
  });
  if (!isOpen) {
    return (
      <Button variant="default" onClick={() => setIsOpen(true)}>
        Show transactions in window
      </Button>
    );
  }
  return <QueryResult query={evidence}>{(data) => <Transactions evidence={data} />}</QueryResult>;
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
        <ScrollableTable label="Transactions in window" columns={fields}>
          {evidence.transactions.map((transaction, i) => (
            <Table.Tr key={i}>
              {fields.map((field) => (
                <Table.Td key={field} className="number">
                  {cellText(field, transaction[field])}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </ScrollableTable>
      )}
    </>
  );
}

function cellText(field: string, value: unknown): string {
  return typeof value === "number" && /Time(stamp)?$/u.test(field) ? formatTime(value) : toText(value);
}
