import { Button, Table } from "@mantine/core";
import { useApiMutation, useCan } from "../api/hooks";
import { keys } from "../api/keys";
import { Chip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { formatNumber } from "../format";
import { useReceivers } from "./useNotifications";

const KINDS = { webhook: "Signed webhook", mail: "Mail", slack: "Slack" } as const;

/** The receivers of the settings file. */
export function ReceiverList() {
  const receivers = useReceivers();
  const can = useCan();
  const test = useApiMutation<string>((name) => ({ path: `/receivers/${name}/test`, method: "POST" }), {
    successMessage: "Test notification added to the deliveries",
    invalidates: [keys.receivers, keys.deliveries],
  });
  return (
    <section className="panel" aria-label="Receivers">
      <h2>Receivers</h2>
      <QueryResult query={receivers}>
        {({ items }) =>
          items.length === 0 ? (
            <EmptyState>
              No receivers. An admin sets them in config/control-plane.yaml: see docs/control-plane.md.
            </EmptyState>
          ) : (
            <RowTable label="Receivers" columns={["Receiver", "Kind", "Connection", "Waiting", "Failed"]} actions>
              {items.map(({ name, kind, connection, ready, waiting, failed }) => (
                <Table.Tr key={name}>
                  <Table.Td className="wrap" style={{ fontWeight: 600 }}>
                    {name}
                  </Table.Td>
                  <Table.Td>{KINDS[kind]}</Table.Td>
                  <Table.Td className="wrap">
                    <span className="code">{connection}</span>{" "}
                    <Chip tone={ready ? "good" : "bad"}>{ready ? "Exists" : "Missing"}</Chip>
                  </Table.Td>
                  <Table.Td className="number">{formatNumber(waiting)}</Table.Td>
                  <Table.Td className="number">{formatNumber(failed)}</Table.Td>
                  <Table.Td>
                    {can("subscribe") && (
                      <Button
                        size="xs"
                        variant="default"
                        aria-label={`Send test to ${name}`}
                        onClick={() => test.mutate(name)}
                      >
                        Send test
                      </Button>
                    )}
                  </Table.Td>
                </Table.Tr>
              ))}
            </RowTable>
          )
        }
      </QueryResult>
    </section>
  );
}
