import { Alert, Button, Group, Loader, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { Problem } from "../api/http";
import type { Reason } from "../api/types";

/** What went wrong, with every reason by field. */
export function Trouble({ error, title, retry }: { error: unknown; title?: string; retry?: () => void }) {
  const problem = error instanceof Problem ? error : undefined;
  const message = error instanceof Error ? error.message : String(error);
  return (
    <Alert
      color="red"
      variant="outline"
      icon={<IconAlertTriangle aria-hidden />}
      title={title ?? problem?.title ?? "Error"}
      role="alert"
    >
      <Text size="sm">{message}</Text>
      {problem && <Reasons reasons={problem.reasons} />}
      {problem?.status === 401 && (
        <Text size="sm">
          <a href={`/auth/login?next=${encodeURIComponent(window.location.pathname)}`}>Log in again</a>
        </Text>
      )}
      {retry && (
        <Group mt="xs">
          <Button variant="default" onClick={retry}>
            Try again
          </Button>
        </Group>
      )}
    </Alert>
  );
}

/** Everything that is wrong, by field. */
export function Reasons({ reasons }: { reasons: readonly Reason[] }) {
  if (reasons.length === 0) return null;
  return (
    <ul style={{ margin: "0.25rem 0 0", paddingLeft: "1.1rem" }}>
      {reasons.map((reason) => (
        <li key={`${reason.field} ${reason.message}`} className="wrap">
          <strong className="code">{reason.field}</strong> {reason.message}
        </li>
      ))}
    </ul>
  );
}

interface Read<T> {
  data: T | undefined;
  error: unknown;
  isPending: boolean;
  refetch: () => unknown;
}

/** What was read, once it is there; what went wrong until then. */
export function Shown<T>({ of, children }: { of: Read<T>; children: (data: T) => ReactNode }) {
  if (of.data !== undefined) {
    return (
      <>
        {of.error !== null && <Trouble error={of.error} retry={() => void of.refetch()} />}
        {children(of.data)}
      </>
    );
  }
  if (of.error) return <Trouble error={of.error} retry={() => void of.refetch()} />;
  return (
    <Group justify="center" p="xl" aria-busy="true">
      <Loader size="sm" aria-label="Loading" />
    </Group>
  );
}

/** Said where there is nothing yet, and what to do about it. */
export function Nothing({ children }: { children: ReactNode }) {
  return (
    <Text c="dimmed" size="sm" p="lg" ta="center">
      {children}
    </Text>
  );
}
