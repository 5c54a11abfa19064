import { Button, Group } from "@mantine/core";

interface Paged {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** At the end of a list that goes on, newest first. */
export function Further({ of }: { of: Paged }) {
  if (!of.hasNextPage) return null;
  return (
    <Group justify="center" mt="md">
      <Button variant="default" loading={of.isFetchingNextPage} onClick={() => void of.fetchNextPage()}>
        Older ones
      </Button>
    </Group>
  );
}
