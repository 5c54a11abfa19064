import { Button, Table } from "@mantine/core";
import { IconUpload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { useCan } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
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
import { capital, type CollectionKind, type CollectionRow, kindOf, MAP, typeOf } from "./types";

const REFRESH_MS = 10_000;

/** All lists or maps, with the rules that use them. */
export default function ListsPage({ kind }: { kind: CollectionKind }) {
  const title = capital(kind.plural);
  usePageTitle(title);
  const can = useCan();
  const [isImporting, setIsImporting] = useState(false);
  const [isCreating, setIsCreating] = useState(false);
  const lists = useQuery({
    queryKey: keys[kind.plural],
    queryFn: ({ signal }) => get<{ items: CollectionRow[] }>(`/${kind.plural}`, signal),
    refetchInterval: REFRESH_MS,
  });
  return (
    <>
      <PageHeader title={title} subtitle={kind.subtitle}>
        {can("readIds") && (
          <ExportMenu
            path={`/export/${kind.plural}`}
            name={`fraud-${kind.plural}`}
            lines={`One line per ${kind === MAP ? "entry" : "value"}`}
          />
        )}
        {can("import") && (
          <Button
            variant="default"
            leftSection={<IconUpload size={14} aria-hidden />}
            onClick={() => setIsImporting(true)}
          >
            Import
          </Button>
        )}
        {can("draft") && <Button onClick={() => setIsCreating(true)}>New {kind.name}</Button>}
      </PageHeader>
      <QueryResult query={lists}>
        {({ items }) =>
          items.length === 0 ? (
            <EmptyState>No {kind.plural}</EmptyState>
          ) : (
            <RowTable
              label={title}
              columns={[capital(kind.name), capital(kind.content), "Status", "Used by rules", "Last change"]}
            >
              {items.map((row) => (
                <ListTableRow key={row.name} row={row} />
              ))}
            </RowTable>
          )
        }
      </QueryResult>
      {isImporting && <ImportListsDialog kind={kind} close={() => setIsImporting(false)} />}
      {isCreating && <NewListDialog kind={kind} close={() => setIsCreating(false)} />}
    </>
  );
}

function ListTableRow({ row }: { row: CollectionRow }) {
  return (
    <Table.Tr>
      <Table.Td>
        <Link to={`/${kindOf(row).plural}/${row.name}`} className="wrap" style={{ fontWeight: 600 }}>
          {row.name}
        </Link>{" "}
        <Chip>{typeOf(row)}</Chip>
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
