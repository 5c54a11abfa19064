import { Alert, Button, Group, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { Problem } from "../api/http";
import type { Reason } from "../api/types";
import { loginAddress } from "../login";

/** An error, with its reasons by field. */
export function ErrorAlert({ error, title, retry }: { error: unknown; title?: string; retry?: () => void }) {
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
      {!isRepeated(message, problem?.reasons ?? []) && <Text size="sm">{message}</Text>}
      {problem && <ReasonList reasons={problem.reasons} />}
      {problem?.status === 401 && (
        <Text size="sm">
          <a href={loginAddress(window.location)}>Log in again</a>
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

/** Whether the reasons say all that a message says. */
function isRepeated(message: string, reasons: readonly Reason[]): boolean {
  return reasons.length > 0 && message === reasons.map((each) => `${each.field}: ${each.message}`).join("; ");
}

/** Validation errors, one line per field. */
export function ReasonList({ reasons }: { reasons: readonly Reason[] }) {
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
