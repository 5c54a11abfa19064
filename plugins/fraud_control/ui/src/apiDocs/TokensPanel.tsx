import { Button, Group, Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useApiMutation } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { ProgramToken, ProgramTokens } from "../api/types";
import { Chip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { Timestamp } from "../components/Timestamp";
import { useNow } from "../useNow";
import { NewTokenDialog } from "./NewTokenDialog";

/** The user's tokens for programs; an admin sees all. */
export function TokensPanel() {
  const tokens = useQuery({ queryKey: keys.tokens, queryFn: ({ signal }) => get<ProgramTokens>("/tokens", signal) });
  const [isNew, setIsNew] = useState(false);
  return (
    <section className="panel" aria-label="Tokens">
      <Group justify="space-between" mb="xs">
        <h2 style={{ margin: 0 }}>Tokens</h2>
        <Button onClick={() => setIsNew(true)}>New token</Button>
      </Group>
      <QueryResult query={tokens}>
        {({ items }) =>
          items.length === 0 ? (
            <EmptyState>No tokens</EmptyState>
          ) : (
            <RowTable label="Tokens" columns={["Program", "Owner", "Role", "Created", "Expires"]} actions>
              {items.map((token) => (
                <TokenRow key={token.id} token={token} />
              ))}
            </RowTable>
          )
        }
      </QueryResult>
      {isNew && <NewTokenDialog close={() => setIsNew(false)} />}
    </section>
  );
}

function TokenRow({ token: { id, name, owner, role, createdAt, expiresAt } }: { token: ProgramToken }) {
  const isExpired = expiresAt <= useNow();
  const revoke = useApiMutation<null>(() => ({ path: `/tokens/${id}`, method: "DELETE" }), {
    successMessage: `Token ${name} revoked`,
    invalidates: [keys.tokens],
  });
  return (
    <Table.Tr>
      <Table.Td className="wrap" style={{ fontWeight: 600 }}>
        {name}
      </Table.Td>
      <Table.Td className="wrap">{owner}</Table.Td>
      <Table.Td>{role}</Table.Td>
      <Table.Td>
        <Timestamp ms={createdAt} withDate />
      </Table.Td>
      <Table.Td>
        <Timestamp ms={expiresAt} withDate /> {isExpired && <Chip tone="warn">Expired</Chip>}
      </Table.Td>
      <Table.Td>
        <Button
          size="xs"
          variant="default"
          c="var(--bad)"
          aria-label={`Revoke ${name} of ${owner}`}
          loading={revoke.isPending}
          onClick={() => revoke.mutate(null)}
        >
          Revoke
        </Button>
      </Table.Td>
    </Table.Tr>
  );
}
