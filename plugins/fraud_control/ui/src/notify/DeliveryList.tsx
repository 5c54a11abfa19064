import { Button, Group, Select, Table } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { useApiMutation, useCan } from "../api/hooks";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { Deliveries, Delivery } from "../api/types";
import { Chip, type Tone } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { LoadMore } from "../components/LoadMore";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { Timestamp } from "../components/Timestamp";
import { formatCount, formatNumber } from "../format";
import { useSubscriptions } from "./useNotifications";

const REFRESH_MS = 5_000;
const STATES = { WAITING: "Waiting", DELIVERED: "Delivered", FAILED: "Failed" } as const;

/** The deliveries, newest first. The address has the selected state. */
export function DeliveryList() {
  const can = useCan();
  const [params, setParams] = useSearchParams();
  const state = params.get("state") ?? "";
  const deliveries = useInfiniteQuery({
    queryKey: [...keys.deliveries, state],
    queryFn: ({ pageParam, signal }) =>
      get<Deliveries>(`/deliveries${queryString({ limit: 50, before: pageParam, ...(state && { state }) })}`, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    refetchInterval: REFRESH_MS,
  });
  const invalidates = [keys.deliveries, keys.receivers];
  const retry = useApiMutation<number>((id) => ({ path: `/deliveries/${id}/retry`, method: "POST" }), {
    successMessage: "The delivery is sent again",
    invalidates,
  });
  const retryAll = useApiMutation<null, { count: number }>(() => ({ path: "/deliveries/retry", method: "POST" }), {
    successMessage: ({ body }) =>
      body.count === 1
        ? "1 failed delivery is sent again"
        : `${formatNumber(body.count)} failed deliveries are sent again`,
    invalidates,
  });
  return (
    <section className="panel" aria-label="Deliveries">
      <Group justify="space-between" mb="xs">
        <h2 style={{ margin: 0 }}>Deliveries</h2>
        <Group gap="xs">
          <Select
            aria-label="State"
            placeholder="Any state"
            clearable
            clearButtonProps={{ "aria-label": "Any state" }}
            data={Object.entries(STATES).map(([value, label]) => ({ value, label }))}
            value={state === "" ? null : state}
            onChange={(chosen) => setParams(chosen === null ? {} : { state: chosen }, { replace: true })}
            w="10rem"
          />
          {can("subscribe") && (
            <Button variant="default" loading={retryAll.isPending} onClick={() => retryAll.mutate(null)}>
              Retry failed
            </Button>
          )}
        </Group>
      </Group>
      <QueryResult query={deliveries}>
        {({ pages }) => {
          const rows = pages.flatMap((page) => page.items);
          return rows.length === 0 ? (
            <EmptyState>No deliveries</EmptyState>
          ) : (
            <>
              <RowTable
                label="Deliveries"
                columns={["Time", "Receiver", "Subscription", "Notification", "State"]}
                actions
              >
                {rows.map((row) => (
                  <DeliveryRow
                    key={row.id}
                    row={row}
                    retry={can("subscribe") && row.state !== "DELIVERED" ? () => retry.mutate(row.id) : null}
                  />
                ))}
              </RowTable>
              <LoadMore query={deliveries} label="Load older deliveries" />
            </>
          );
        }}
      </QueryResult>
    </section>
  );
}

function DeliveryRow({ row, retry }: { row: Delivery; retry: (() => void) | null }) {
  const subscriptions = useSubscriptions();
  const subscription = subscriptions.data?.items.find(({ id }) => id === row.subscriptionId);
  return (
    <Table.Tr>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        <Timestamp ms={row.createdAt} />
      </Table.Td>
      <Table.Td className="wrap">{row.receiver}</Table.Td>
      <Table.Td className="wrap">{subscription?.name ?? "–"}</Table.Td>
      <Table.Td className="wrap" style={{ minWidth: "14rem" }}>
        {row.title}
      </Table.Td>
      <Table.Td className="wrap" style={{ minWidth: "12rem" }}>
        <DeliveryState row={row} />
      </Table.Td>
      <Table.Td>
        {retry && (
          <Button size="xs" variant="default" aria-label={`Retry delivery ${row.id}`} onClick={retry}>
            Retry
          </Button>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

function DeliveryState({ row }: { row: Delivery }) {
  const isRepeated = row.state === "WAITING" && row.fault !== null;
  const tone: Tone =
    row.state === "FAILED" ? "bad" : isRepeated ? "warn" : row.state === "DELIVERED" ? "good" : "quiet";
  return (
    <>
      <Chip tone={tone}>{isRepeated ? "Retrying" : STATES[row.state]}</Chip>{" "}
      {row.state === "DELIVERED" && row.endedAt !== null && <Timestamp ms={row.endedAt} />}
      {row.state !== "DELIVERED" && row.fault !== null && `${row.fault}, ${formatCount(row.attempts, "attempt")}`}
      {row.state === "WAITING" && (
        <>
          {row.fault !== null && "; "}next attempt <Timestamp ms={row.dueAt} />
        </>
      )}
    </>
  );
}
