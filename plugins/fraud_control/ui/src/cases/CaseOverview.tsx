import { Button, Group } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { DecisionProof } from "../alerts/ProofLink";
import { entityQuery, useCan } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { CaseDetail, CaseOverview } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { Fact } from "../components/Fact";
import { FieldValue } from "../components/FieldValue";
import { QueryResult } from "../components/QueryResult";
import { OutcomeChip } from "../decisions/OutcomeChip";
import { AddToList } from "../entity/AddToList";
import { EntityLink } from "../entity/EntityLink";
import { isMasked } from "../entity/entityPath";
import { PaymentTable } from "../entity/PaymentTable";
import type { Fields } from "../fields";
import { formatCount, formatNumber } from "../format";

const NEWEST = 5;
const NEWEST_DAYS = "7";

/** The money, the newest payments, the lists and the related cases of a case. It is read again with each new alert. */
export function useCaseOverview({ caseId, alerts }: CaseDetail) {
  return useQuery({
    queryKey: keys.caseOverview(caseId, alerts),
    queryFn: ({ signal }) => get<CaseOverview>(`/cases/${caseId}/overview`, signal),
    placeholderData: keepPreviousData,
  });
}

/** The facts for a decision: the amount at stake, the decision of the detector, and the lists. */
export function OverviewFacts({ overview, fields }: { overview: CaseOverview; fields: Fields }) {
  const can = useCan();
  const [isAdding, setAdding] = useState(false);
  const { amount, amountField, decision, lists } = overview;
  return (
    <>
      <Fact name="Amount at stake">
        {amount === null ? "–" : <FieldValue name={amountField ?? ""} value={amount} fields={fields} />}
        <div className="dimmed small">
          {overview.complete ? "" : "newest "}
          {formatCount(overview.payments, "payment")} with alerts
        </div>
      </Fact>
      <Fact name="Decision">
        {decision === null ? (
          "–"
        ) : (
          <>
            <OutcomeChip decision={decision} /> score {formatNumber((decision.corrected ?? decision).score)}{" "}
            <DecisionProof transactionId={decision.transactionId} />
          </>
        )}
      </Fact>
      <Fact name="Lists">
        {lists.length === 0 && "None"}
        {lists.map((name, position) => (
          <span key={name}>
            {position > 0 && ", "}
            <Link to={`/lists/${encodeURIComponent(name)}`}>{name}</Link>
          </span>
        ))}
        {can("draft") && (
          <div>
            <Button variant="default" size="compact-sm" mt={4} onClick={() => setAdding(true)}>
              Add to list …
            </Button>
          </div>
        )}
      </Fact>
      {isAdding && <AddToList entity={overview} close={() => setAdding(false)} />}
    </>
  );
}

/** The newest payments with alerts of the case, and on demand the newest of all payments of its entity. */
export function NewestPayments({ detail, overview, fields }: Props) {
  const { entityField: field, entityValue: value } = detail;
  const [showsAll, setShowsAll] = useState(false);
  const all = useQuery({ ...entityQuery({ field, value, days: NEWEST_DAYS }), enabled: showsAll });
  return (
    <section className="panel" aria-label="Newest payments" style={{ marginBottom: "1rem" }}>
      <Group justify="space-between" mb="xs">
        <h2>{showsAll ? "Newest payments" : "Newest payments with alerts"}</h2>
        {!isMasked(value) && (
          <Group gap="xs">
            <Button variant="default" size="xs" aria-pressed={showsAll} onClick={() => setShowsAll(!showsAll)}>
              Also without alerts
            </Button>
            <EntityLink field={field} value={value}>
              Entity page
            </EntityLink>
          </Group>
        )}
      </Group>
      {showsAll ? (
        <QueryResult query={all}>
          {({ payments, decisions }) => (
            <Table payments={payments.slice(0, NEWEST)} decisions={decisions} fields={fields} hidden={field} />
          )}
        </QueryResult>
      ) : (
        <Table payments={overview.newest} decisions={overview.decisions} fields={fields} hidden={field} />
      )}
    </section>
  );
}

interface Props {
  detail: CaseDetail;
  overview: CaseOverview;
  fields: Fields;
}

function Table(props: Omit<Parameters<typeof PaymentTable>[0], "label">) {
  if (props.payments.length === 0) return <EmptyState>No payments</EmptyState>;
  return <PaymentTable label="Newest payments" {...props} />;
}
