import { Table } from "@mantine/core";
import { DecisionProof } from "../alerts/ProofLink";
import { toText } from "../api/exactJson";
import type { PaymentDecision } from "../api/types";
import { FieldValue } from "../components/FieldValue";
import { LongTable } from "../components/LongTable";
import { OutcomeChip } from "../decisions/OutcomeChip";
import { fieldLabel, fieldOf, type Fields } from "../fields";
import { formatNumber } from "../format";

interface Props {
  label: string;
  payments: readonly Record<string, unknown>[];
  /** Without decisions, the table has no columns for them. */
  decisions?: readonly PaymentDecision[];
  fields: Fields;
  /** The field that all payments have in common. */
  hidden?: string;
}

/** Payments with their decisions and scores. */
export function PaymentTable({ label, payments, decisions, fields, hidden }: Props) {
  const known = new Map(decisions?.map((each) => [each.transactionId, each]));
  const columns = [...new Set(payments.flatMap(Object.keys))].filter((name) => name !== hidden);
  const isAmount = (name: string) => fieldOf(name, fields)?.type === "decimal";
  return (
    <LongTable
      label={label}
      right={columns.filter(isAmount).map((name) => fieldLabel(name, fields))}
      columns={[...columns.map((name) => fieldLabel(name, fields)), ...(decisions ? ["Decision", "Score"] : [])]}
      items={payments}
    >
      {(payment, position) => {
        const decision = known.get(toText(payment["transactionId"]));
        return (
          <Table.Tr key={position} className="one-line">
            {columns.map((name) => (
              <Table.Td key={name} className="number" {...(isAmount(name) ? { ta: "right" as const } : {})}>
                {payment[name] === undefined ? "–" : <FieldValue name={name} value={payment[name]} fields={fields} />}
              </Table.Td>
            ))}
            {decisions && (
              <>
                <Table.Td>
                  {decision && (
                    <>
                      <OutcomeChip decision={decision} /> <DecisionProof transactionId={decision.transactionId} />
                    </>
                  )}
                </Table.Td>
                <Table.Td className="number">
                  {decision && formatNumber((decision.corrected ?? decision).score)}
                </Table.Td>
              </>
            )}
          </Table.Tr>
        );
      }}
    </LongTable>
  );
}
