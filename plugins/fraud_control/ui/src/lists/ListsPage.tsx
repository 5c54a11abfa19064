import { Button, Table } from "@mantine/core";
import { IconUpload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { useCan } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { ListRow, Lists } from "../api/types";
import { Chip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { ExportMenu } from "../components/ExportMenu";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { Timestamp } from "../components/Timestamp";
import { formatNumber } from "../format";
import { ImportListsDialog } from "./ImportListsDialog";
import { ListStatus } from "./ListStatus";
import { NewListDialog } from "./NewListDialog";

const REFRESH_MS = 10_000;

/** All lists of values, with the rules that use them. */
export default function ListsPage() {
  usePageTitle("Lists");
  const can = useCan();
  const [isImporting, setIsImporting] = useState(false);
  const [isCreating, setIsCreating] = useState(false);
  const lists = useQuery({
    queryKey: keys.lists,
    queryFn: ({ signal }) => get<Lists>("/lists", signal),
    refetchInterval: REFRESH_MS,
  });
  return (
    <>
      <PageHeader title="Lists" subtitle="Lists of values that rules look up">
        <ExportMenu path="/export/lists" name="fraud-lists" lines="One line per value" />
        {can("import") && (
          <Button
            variant="default"
            leftSection={<IconUpload size={14} aria-hidden />}
            onClick={() => setIsImporting(true)}
          >
            Import
          </Button>
        )}
        {can("draft") && <Button onClick={() => setIsCreating(true)}>New list</Button>}
      </PageHeader>
      <QueryResult query={lists}>
        {({ items }) =>
          items.length === 0 ? (
            <EmptyState>No lists</EmptyState>
          ) : (
            <RowTable label="Lists" columns={["List", "Values", "Status", "Used by rules", "Last change"]}>
              {items.map((row) => (
                <ListTableRow key={row.name} row={row} />
              ))}
            </RowTable>
          )
        }
      </QueryResult>
      {isImporting && <ImportListsDialog close={() => setIsImporting(false)} />}
      {isCreating && <NewListDialog close={() => setIsCreating(false)} />}
    </>
  );
}

function ListTableRow({ row }: { row: ListRow }) {
  return (
    <Table.Tr>
      <Table.Td>
        <Link to={`/lists/${row.name}`} className="wrap" style={{ fontWeight: 600 }}>
          {row.name}
        </Link>{" "}
        <Chip>{row.type}</Chip>
      </Table.Td>
      <Table.Td className="number">{formatNumber(row.size)}</Table.Td>
      <Table.Td>
        <ListStatus list={row} />
      </Table.Td>
      <Table.Td>
        {row.rules.map((rule, i) => (
          <span key={rule.ruleId}>
            {i > 0 && ", "}
            <Link to={`/rules/${rule.ruleId}`}>{rule.name ?? `Rule ${rule.ruleId}`}</Link>
          </span>
        ))}
      </Table.Td>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        <Timestamp ms={row.updatedAt} />, {row.updatedBy}
      </Table.Td>
    </Table.Tr>
  );
}
