import { Button, Group, Table } from "@mantine/core";
import { useState } from "react";
import { useApiMutation, useCan, useMe } from "../api/hooks";
import { keys } from "../api/keys";
import type { Subscription } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { SubscriptionDialog } from "./SubscriptionDialog";
import { eventsText, filterText, quietText } from "./subscriptionText";
import { useSubscriptions } from "./useNotifications";

/** All subscriptions. Their authors and admins can change them. */
export function SubscriptionList() {
  const subscriptions = useSubscriptions();
  const can = useCan();
  const [edited, setEdited] = useState<Subscription | "new" | null>(null);
  return (
    <section className="panel" aria-label="Subscriptions">
      <Group justify="space-between" mb="xs">
        <h2 style={{ margin: 0 }}>Subscriptions</h2>
        {can("subscribe") && <Button onClick={() => setEdited("new")}>New subscription</Button>}
      </Group>
      <QueryResult query={subscriptions}>
        {({ items }) =>
          items.length === 0 ? (
            <EmptyState>No subscriptions</EmptyState>
          ) : (
            <RowTable
              label="Subscriptions"
              columns={["Subscription", "Receiver", "Events", "Filter", "Quiet hours", "Author"]}
              actions
            >
              {items.map((row) => (
                <SubscriptionRow key={row.id} row={row} edit={() => setEdited(row)} />
              ))}
            </RowTable>
          )
        }
      </QueryResult>
      {edited && <SubscriptionDialog edited={edited === "new" ? null : edited} close={() => setEdited(null)} />}
    </section>
  );
}

function SubscriptionRow({ row, edit }: { row: Subscription; edit: () => void }) {
  const me = useMe();
  const can = useCan();
  const remove = useApiMutation<null>(() => ({ path: `/subscriptions/${row.id}`, method: "DELETE" }), {
    successMessage: `Subscription ${row.name} deleted`,
    invalidates: [keys.subscriptions, keys.deliveries],
  });
  const isChangeable = can("subscribe") && (row.author === me.data?.user || can("bind"));
  return (
    <Table.Tr>
      <Table.Td className="wrap" style={{ fontWeight: 600 }}>
        {row.name}
      </Table.Td>
      <Table.Td className="wrap">{row.receiver}</Table.Td>
      <Table.Td className="wrap">{eventsText(row)}</Table.Td>
      <Table.Td className="wrap" style={{ minWidth: "10rem" }}>
        {filterText(row)}
      </Table.Td>
      <Table.Td className="wrap">{quietText(row)}</Table.Td>
      <Table.Td className="wrap">{row.author}</Table.Td>
      <Table.Td>
        {isChangeable && (
          <Group gap="xs" wrap="nowrap">
            <Button size="xs" variant="default" aria-label={`Edit ${row.name}`} onClick={edit}>
              Edit
            </Button>
            <Button
              size="xs"
              variant="default"
              c="var(--bad)"
              aria-label={`Delete ${row.name}`}
              loading={remove.isPending}
              onClick={() => remove.mutate(null)}
            >
              Delete
            </Button>
          </Group>
        )}
      </Table.Td>
    </Table.Tr>
  );
}
