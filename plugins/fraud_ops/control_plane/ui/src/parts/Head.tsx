import { Group, Text, Title } from "@mantine/core";
import { type ReactNode, useEffect } from "react";

/** A page's heading, with what one can do on it. */
export function Head({ title, about, children }: { title: ReactNode; about?: ReactNode; children?: ReactNode }) {
  return (
    <Group justify="space-between" align="flex-end" mb="md" gap="sm">
      <div style={{ minWidth: 0 }}>
        <Title order={1} className="wrap">
          {title}
        </Title>
        {about && (
          <Text size="sm" c="dimmed" component="div">
            {about}
          </Text>
        )}
      </div>
      {children && <Group gap="xs">{children}</Group>}
    </Group>
  );
}

/** The name of the page in the window's title. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Fraud rules`;
  }, [title]);
}
