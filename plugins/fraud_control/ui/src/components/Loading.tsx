import { Group, Loader, Text } from "@mantine/core";
import { useState } from "react";
import { formatDuration } from "../format";
import { useNow } from "../useNow";

/** The wait after which the page says what it waits for. */
const LONG_MS = 5_000;

/** A spinner that assistive technology announces. After some seconds it says how long the server has not answered. */
export function Loading() {
  const now = useNow();
  const [since] = useState(() => Date.now());
  const waitedMs = now - since;
  return (
    <Group gap="xs">
      <Loader size="sm" role="status" aria-label="Loading" />
      {waitedMs >= LONG_MS && (
        <Text size="sm" c="dimmed">
          Waiting for the server for {formatDuration(Math.floor(waitedMs / 1_000) * 1_000)}
        </Text>
      )}
    </Group>
  );
}
