import { ActionIcon, Button, Group, Popover, Text, TextInput } from "@mantine/core";
import { IconBookmark, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { useApiMutation } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { SavedSearches as SavedSearchesSchema } from "../api/types";

/** The user's saved searches, and a field to save the present one. `query` is the query string of the address. */
export function SavedSearches({ query }: { query: string }) {
  const [name, setName] = useState("");
  const [isOpen, setOpen] = useState(false);
  const { data } = useQuery({
    queryKey: keys.savedSearches,
    queryFn: ({ signal }) => get<SavedSearchesSchema>("/saved-searches", signal),
    enabled: isOpen,
  });
  const save = useApiMutation<string>(
    (saved) => ({ path: `/saved-searches/${encodeURIComponent(saved)}`, method: "PUT", body: { query } }),
    { invalidates: [keys.savedSearches] },
  );
  const remove = useApiMutation<string>(
    (saved) => ({ path: `/saved-searches/${encodeURIComponent(saved)}`, method: "DELETE" }),
    { invalidates: [keys.savedSearches] },
  );
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-end" trapFocus width={300}>
      <Popover.Target>
        <Button
          variant="default"
          leftSection={<IconBookmark size={14} aria-hidden />}
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          Saved searches
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        {data?.items.length === 0 && (
          <Text size="sm" c="dimmed">
            No saved searches
          </Text>
        )}
        <ul aria-label="Saved searches" style={{ listStyle: "none", margin: 0, padding: 0 }}>
          {data?.items.map((each) => (
            <li key={each.name} style={{ display: "flex", justifyContent: "space-between", gap: 8 }}>
              <Link to={`/alerts?${each.query}`} className="wrap" onClick={() => setOpen(false)}>
                {each.name}
              </Link>
              <ActionIcon
                variant="subtle"
                color="gray"
                size="sm"
                aria-label={`Remove ${each.name}`}
                onClick={() => remove.mutate(each.name)}
              >
                <IconX size={14} aria-hidden />
              </ActionIcon>
            </li>
          ))}
        </ul>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            save.mutate(name.trim(), { onSuccess: () => setName("") });
          }}
        >
          <Group gap="xs" mt="sm" align="flex-end" wrap="nowrap">
            <TextInput
              label="Save this search as"
              value={name}
              maxLength={80}
              onChange={(event) => setName(event.currentTarget.value)}
              style={{ flex: 1 }}
            />
            <Button type="submit" disabled={query === "" || name.trim() === ""} loading={save.isPending}>
              Save
            </Button>
          </Group>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
