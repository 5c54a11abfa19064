import { Box, Button, Kbd } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useState } from "react";
import { SearchDialog } from "./SearchDialog";

/** A button that opens the search over everything. Ctrl K opens it too, also while the user types. */
export function SearchButton() {
  const [isOpen, setOpen] = useState(false);
  useHotkeys([["mod+K", () => setOpen(true)]], [], true);
  return (
    <>
      <Button variant="default" size="xs" aria-label="Search" title="Search (Ctrl K)" onClick={() => setOpen(true)}>
        <IconSearch size={14} aria-hidden />
        <Box component="span" visibleFrom="sm" ml={6}>
          Search
        </Box>
      </Button>
      <Kbd size="xs" visibleFrom="md" aria-hidden style={{ whiteSpace: "nowrap" }}>
        Ctrl K
      </Kbd>
      {isOpen && <SearchDialog close={() => setOpen(false)} />}
    </>
  );
}
