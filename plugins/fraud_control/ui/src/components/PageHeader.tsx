import { Group, Text, Title } from "@mantine/core";
import { type ReactNode, useEffect } from "react";

/** The heading of a page, with its buttons as `children`. */
export function PageHeader({
  title,
  subtitle,
  children,
}: {
  title: ReactNode;
  subtitle?: ReactNode;
  children?: ReactNode;
}) {
  return (
    <Group justify="space-between" align="flex-end" mb="md" gap="sm">
      <div style={{ minWidth: 0 }}>
        <Title order={1} className="wrap">
          {title}
        </Title>
        {subtitle && (
          <Text size="sm" c="dimmed" component="div">
            {subtitle}
          </Text>
        )}
      </div>
      {children && <Group gap="xs">{children}</Group>}
    </Group>
  );
}

/** Sets the title of the browser window. */
export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Fraud rules`;
  }, [title]);
}
