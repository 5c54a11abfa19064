import { Group, Select, Table, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { DecisionProof } from "../alerts/ProofLink";
import { useRuleNames } from "../api/hooks";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { Decisions, PaymentDecision } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { LoadMore } from "../components/LoadMore";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { RuleSelect } from "../components/RuleSelect";
import { Timestamp } from "../components/Timestamp";
import { formatNumber } from "../format";
import { OUTCOME_NAMES, OutcomeChip } from "./OutcomeChip";

type Outcome = PaymentDecision["outcome"];

const OUTCOMES: Outcome[] = ["DECLINE", "REVIEW", "NOTE"];
const REFRESH_MS = 3_000;

/** The newest decisions: one row per payment with alerts of active rules. */
export default function DecisionsPage() {
  usePageTitle("Decisions");
  const [params, setParams] = useSearchParams();
  const names = useRuleNames();
  const [transaction] = useDebouncedValue(params.get("payment") ?? "", 250);
  const filter = { outcome: params.get("outcome"), transaction, ruleId: Number(params.get("rule")) || null };
  const decisions = useInfiniteQuery({
    queryKey: keys.decisions(filter),
    queryFn: ({ pageParam, signal }) =>
      get<Decisions>(`/decisions${queryString({ ...filter, limit: 100, before: pageParam })}`, signal),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next,
    refetchInterval: REFRESH_MS,
  });
  const set = (name: string, value: string | null) =>
    setParams(
      (old) => {
        if (value) old.set(name, value);
        else old.delete(name);
        return old;
      },
      { replace: true },
    );
  return (
    <>
      <PageHeader
        title="Decisions"
        subtitle="One decision per payment: the sum of the weights of the rules that fired"
      />
      <Group mb="sm" gap="xs" align="center">
        <Select
          aria-label="Outcome"
          placeholder="Any outcome"
          clearable
          clearButtonProps={{ "aria-label": "Any outcome" }}
          data={OUTCOMES.map((value) => ({ value, label: OUTCOME_NAMES[value] }))}
          value={params.get("outcome")}
          onChange={(value) => set("outcome", value)}
          w="10.5rem"
        />
        <RuleSelect
          names={names}
          value={filter.ruleId}
          change={(ruleId) => set("rule", ruleId === null ? null : String(ruleId))}
        />
        <TextInput
          type="search"
          aria-label="Search by payment ID"
          placeholder="Search by payment ID"
          value={params.get("payment") ?? ""}
          onChange={(event) => set("payment", event.currentTarget.value.trim())}
          style={{ flex: "1 1 9rem", maxWidth: "14rem" }}
        />
      </Group>
      <QueryResult query={decisions}>
        {({ pages }) => {
          const rows = pages.flatMap((page) => page.items);
          return rows.length === 0 ? (
            <EmptyState>No decisions. New decisions appear here.</EmptyState>
          ) : (
            <>
              <RowTable label="Decisions" columns={["Time", "Payment", "Outcome", "Score", "Rules"]}>
                {rows.map((row) => (
                  <DecisionRow key={`${row.transactionId} ${row.appendTime}`} row={row} names={names} />
                ))}
              </RowTable>
              <LoadMore query={decisions} label="Load older decisions" />
            </>
          );
        }}
      </QueryResult>
    </>
  );
}

function DecisionRow({ row, names }: { row: PaymentDecision; names: ReadonlyMap<number, string> }) {
  const { score } = row.corrected ?? row;
  return (
    <Table.Tr>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        <Timestamp ms={row.eventTime} />
      </Table.Td>
      <Table.Td className="number">
        <Link to={`/alerts?${new URLSearchParams({ text: row.transactionId }).toString()}`}>{row.transactionId}</Link>
      </Table.Td>
      <Table.Td>
        <OutcomeChip decision={row} /> <DecisionProof transactionId={row.transactionId} />
      </Table.Td>
      <Table.Td className="number">{formatNumber(score)}</Table.Td>
      <Table.Td className="wrap" style={{ minWidth: "14rem" }}>
        {row.alerts.map((alert, position) => {
          const name = names.get(alert.ruleId) || `Rule ${alert.ruleId}`;
          return (
            <span key={alert.alertId}>
              {position > 0 && ", "}
              <Link to={`/rules/${alert.ruleId}`}>{name}</Link> ({formatNumber(alert.weight)})
            </span>
          );
        })}
      </Table.Td>
    </Table.Tr>
  );
}
