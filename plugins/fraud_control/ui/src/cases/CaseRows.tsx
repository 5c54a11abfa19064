import { Table } from "@mantine/core";
import { Link } from "react-router";
import { useRuleNames, useSchema } from "../api/hooks";
import type { Case } from "../api/types";
import { Chip } from "../components/Chip";
import { RowTable } from "../components/RowTable";
import { SeverityChip } from "../components/SeverityChip";
import { Timestamp } from "../components/Timestamp";
import { fieldLabel } from "../fields";
import { formatNumber } from "../format";
import { useNow } from "../useNow";
import { casePath, statusOf } from "./caseQueue";

const SHOWN_RULES = 2;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const EXPIRES_SOON_MS = 7 * DAY_MS;
const COLUMNS = ["Case", "Severity", "Status", "Assignee", "Alerts", "Rules", "Latest alert"];

/** Cases as the rows of a table. `address` is the query string of the queue, which the links keep. */
export function CaseRows({ label, cases, address = "" }: { label: string; cases: readonly Case[]; address?: string }) {
  const names = useRuleNames();
  const fields = useSchema().data?.fields ?? [];
  const now = useNow(MINUTE_MS);
  return (
    <RowTable label={label} columns={COLUMNS}>
      {cases.map((row) => (
        <Table.Tr key={row.caseId}>
          <Table.Td style={{ minWidth: "9rem" }}>
            <Link
              to={casePath(row.caseId, address)}
              data-case={row.caseId}
              className="wrap"
              style={{ fontWeight: 600 }}
            >
              {fieldLabel(row.entityField, fields)} {row.entityValue}
            </Link>
            <div className="dimmed small">Case {row.caseId}</div>
          </Table.Td>
          <Table.Td>
            <SeverityChip severity={row.severity} />
          </Table.Td>
          <Table.Td>
            <StatusChip row={row} />
            {row.expiresAt !== null && <Expiry leftMs={row.expiresAt - now} />}
          </Table.Td>
          <Table.Td className="wrap" style={{ minWidth: "6.5rem" }}>
            {row.assignee ?? <span className="dimmed">Unassigned</span>}
          </Table.Td>
          <Table.Td className="number">
            {formatNumber(row.alerts)}
            <div className="dimmed small">{formatNumber(row.unreviewed)} unreviewed</div>
          </Table.Td>
          <Table.Td className="wrap" style={{ minWidth: "12rem" }}>
            {rulesText(row, names)}
          </Table.Td>
          <Table.Td style={{ whiteSpace: "nowrap" }}>
            <Timestamp ms={row.lastAlert} />
            {row.firstAlert < row.lastAlert && (
              <div className="dimmed small">
                first <Timestamp ms={row.firstAlert} />
              </div>
            )}
          </Table.Td>
        </Table.Tr>
      ))}
    </RowTable>
  );
}

/** Announces that a case on which no person works expires soon: expires in 3 days. */
function Expiry({ leftMs }: { leftMs: number }) {
  if (leftMs >= EXPIRES_SOON_MS) return null;
  const days = Math.max(0, Math.ceil(leftMs / DAY_MS));
  const text = days === 0 ? "expires now" : `expires in ${formatNumber(days)} ${days === 1 ? "day" : "days"}`;
  return <div className="dimmed small">{text}</div>;
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
