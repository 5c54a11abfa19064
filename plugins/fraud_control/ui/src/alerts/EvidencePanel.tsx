import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSchema } from "../api/hooks";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { Evidence } from "../api/types";
import { QueryResult } from "../components/QueryResult";
import { PaymentTable } from "../entity/PaymentTable";
import { formatNumber } from "../format";
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
  const fields = useSchema().data?.fields ?? [];
  return (
    <>
      <Text size="sm" role="status">
        {formatNumber(evidence.transactions.length)} of {formatNumber(evidence.count)} transactions
        {evidence.missing && `: ${evidence.missing}`}
      </Text>
      {evidence.transactions.length > 0 && (
        <PaymentTable label="Transactions in window" payments={evidence.transactions} fields={fields} />
      )}
    </>
  );
}
