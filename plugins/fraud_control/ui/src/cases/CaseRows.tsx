import { Table } from "@mantine/core";
import { Link } from "react-router";
import { useRuleNames, useSchema } from "../api/hooks";
import type { Case } from "../api/types";
import { Chip } from "../components/Chip";
import { FieldValue } from "../components/FieldValue";
import { RowTable } from "../components/RowTable";
import { SeverityChip } from "../components/SeverityChip";
import { Timestamp } from "../components/Timestamp";
import { amountField, fieldLabel } from "../fields";
import { formatDuration, formatNumber } from "../format";
import { useNow } from "../useNow";
import { casePath, statusOf } from "./caseQueue";

const SHOWN_RULES = 2;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const EXPIRES_SOON_MS = 7 * DAY_MS;
const COLUMNS = ["Case", "Severity", "Status", "Due", "Assignee", "Alerts", "Amount", "Rules", "Latest alert"];

/** Cases as the rows of a table. `address` is the query string of the queue, which the links keep. */
export function CaseRows({ label, cases, address = "" }: { label: string; cases: readonly Case[]; address?: string }) {
  const names = useRuleNames();
  const fields = useSchema().data?.fields ?? [];
  const amount = amountField(fields);
  const now = useNow(MINUTE_MS);
  return (
    <RowTable label={label} columns={COLUMNS}>
      {cases.map((row) => (
        <Table.Tr key={row.caseId} className="one-line">
          <Table.Td>
            <Link to={casePath(row.caseId, address)} data-case={row.caseId} style={{ fontWeight: 600 }}>
              {fieldLabel(row.entityField, fields)} {row.entityValue}
            </Link>{" "}
            <span className="dimmed small">Case {row.caseId}</span>
          </Table.Td>
          <Table.Td>
            <SeverityChip severity={row.severity} />
          </Table.Td>
          <Table.Td>
            <StatusChip row={row} />
            {row.expiresAt !== null && <Expiry leftMs={row.expiresAt - now} />}
          </Table.Td>
          <Table.Td>
            <Due row={row} />
          </Table.Td>
          <Table.Td title={assigneeText(row)}>
            {row.assignee === null ? <span className="dimmed">Unassigned</span> : assigneeText(row)}
          </Table.Td>
          <Table.Td className="number">
            {formatNumber(row.alerts)} <span className="dimmed small">{formatNumber(row.unreviewed)} unreviewed</span>
          </Table.Td>
          <Table.Td className="number">
            {row.amount === null ? "–" : <FieldValue name={amount?.name ?? ""} value={row.amount} fields={fields} />}
          </Table.Td>
          <Table.Td title={rulesText(row, names)}>{rulesText(row, names)}</Table.Td>
          <Table.Td>
            <Timestamp ms={row.lastAlert} />
          </Table.Td>
        </Table.Tr>
      ))}
    </RowTable>
  );
}

/** When a case is due: in 3 h, or overdue by 2 d. */
export function Due({ row }: { row: Pick<Case, "dueAt"> }) {
  const now = useNow(MINUTE_MS);
  if (row.dueAt === null) return <span className="dimmed">–</span>;
  const left = row.dueAt - now;
  if (left >= 0) return <>in {formatDuration(left)}</>;
  return <Chip tone="bad">overdue {formatDuration(-left)}</Chip>;
}

/** The assignee, with the user who handed the case over: ben, from ann. */
function assigneeText({ assignee, handedBy }: Case): string {
  if (assignee === null) return "";
  return handedBy === null ? assignee : `${assignee}, from ${handedBy}`;
}

/** Announces that a case on which no person works expires soon: expires in 3 days. */
function Expiry({ leftMs }: { leftMs: number }) {
  if (leftMs >= EXPIRES_SOON_MS) return null;
  const days = Math.max(0, Math.ceil(leftMs / DAY_MS));
  const text = days === 0 ? "expires now" : `expires in ${formatNumber(days)} ${days === 1 ? "day" : "days"}`;
  return <span className="dimmed small"> {text}</span>;
}

/** The status of a case, with its outcome. */
export function StatusChip({ row }: { row: Pick<Case, "status" | "outcome"> }) {
  const [tone, text] = statusOf(row);
  return <Chip tone={tone}>{text}</Chip>;
}

/** The rules with the most alerts: Rapid transfers (12), Card testing (2), 3 more. */
export function rulesText({ rules }: Case, names: ReadonlyMap<number, string>): string {
  const shown = rules
    .slice(0, SHOWN_RULES)
    .map(({ ruleId, alerts }) => `${names.get(ruleId) || `Rule ${ruleId}`} (${formatNumber(alerts)})`);
  const more = rules.length - shown.length;
  return [...shown, ...(more > 0 ? [`${more} more`] : [])].join(", ");
}
