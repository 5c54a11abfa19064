import { Button, Group } from "@mantine/core";

interface Paged {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** At the end of a list that goes on, newest first. */
export function Further({ of, label }: { of: Paged; label: string }) {
  if (!of.hasNextPage) return null;
  return (
    <Group justify="center" mt="md">
      <Button variant="default" loading={of.isFetchingNextPage} onClick={() => void of.fetchNextPage()}>
        {label}
      </Button>
    </Group>
  );
}
