import { Group } from "@mantine/core";
import type { ReactNode } from "react";
import { ErrorAlert } from "./ErrorAlert";
import { Loading } from "./Loading";

interface QueryState<T> {
  data: T | undefined;
  error: unknown;
  isPending: boolean;
  refetch: () => unknown;
}

/** Renders `children` with the data of a query. Without data it renders a loader or the error. */
export function QueryResult<T>({ query, children }: { query: QueryState<T>; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) {
    return (
      <>
        {query.error !== null && <ErrorAlert error={query.error} retry={() => void query.refetch()} />}
        {children(query.data)}
      </>
    );
  }
  if (query.error) return <ErrorAlert error={query.error} retry={() => void query.refetch()} />;
  return (
    <Group justify="center" p="xl" aria-busy="true">
      <Loading />
    </Group>
  );
}
