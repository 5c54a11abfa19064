import { Table } from "@mantine/core";
import { Link } from "react-router";
import { useSchema } from "../api/hooks";
import type { RuleDocument } from "../api/types";
import { Chip } from "../components/Chip";
import { ScrollableTable } from "../components/ScrollableTable";
import { Timestamp } from "../components/Timestamp";
import { conditionsOf } from "../conditions";
import { aggregateText, formatNumber, windowText } from "../format";
import { limitText, valueText } from "../measure";
import type { Alert } from "./types";

type Condition = NonNullable<Alert["conditions"]>[number];

/** The conditions of an alert: value, limit and window of each, and whether it holds. */
export function ConditionTable({ alert }: { alert: Alert }) {
  const documents = conditionsOf(alert.violatedRule);
  return (
    <ScrollableTable label="Conditions" columns={["Condition", "Value", "Limit", "Window", "Transactions", "Holds"]}>
      {(alert.conditions ?? []).map((condition, i) => (
        <Table.Tr key={i}>
          {condition.ruleId === null || condition.ruleId === undefined ? (
            <AggregateCells condition={condition} document={documents[i] ?? {}} />
          ) : (
            <>
              <Table.Td>
                <Link to={`/rules/${condition.ruleId}?tab=versions&log=${condition.ruleVersion}`}>
                  Rule {condition.ruleId}
                </Link>
              </Table.Td>
              <Table.Td className="number">{condition.value ?? "not evaluated"}</Table.Td>
              <Table.Td />
              <Table.Td />
            </>
          )}
          <Table.Td className="number">{condition.count === null ? "" : formatNumber(condition.count)}</Table.Td>
          <Table.Td>
            <Chip tone={condition.holds ? "good" : "quiet"}>{condition.holds ? "Holds" : "Does not hold"}</Chip>
          </Table.Td>
        </Table.Tr>
      ))}
    </ScrollableTable>
  );
}

function AggregateCells({ condition, document }: { condition: Condition; document: RuleDocument }) {
  const fields = useSchema().data?.fields ?? [];
  const start = condition.windowStart ?? null;
  return (
    <>
      <Table.Td>{aggregateText(document)}</Table.Td>
      <Table.Td className="number">
        {condition.value === null ? "none" : valueText(document, condition.value, fields)}
      </Table.Td>
      <Table.Td className="number">{limitText(document, null, fields, condition.limit)}</Table.Td>
      <Table.Td>
        {windowText(document)}
        {start !== null && (
          <>
            , from <Timestamp ms={start} />
          </>
        )}
      </Table.Td>
    </>
  );
}
