import { Text } from "@mantine/core";
import type { ReactNode } from "react";

/** The text in place of an empty list. */
export function EmptyState({ children }: { children: ReactNode }) {
  return (
    <Text c="dimmed" size="sm" p="lg" ta="center">
      {children}
    </Text>
  );
}
