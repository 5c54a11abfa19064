import { Button, Menu } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { API } from "../api/http";

const FORMATS = { csv: "CSV", parquet: "Parquet" } as const;

/** Downloads the alerts of the search as a file. `query` is the query string of the search. */
export function ExportAlerts({ query }: { query: string }) {
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default" leftSection={<IconDownload size={14} aria-hidden />}>
          Export
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {Object.entries(FORMATS).map(([format, name]) => (
          <Menu.Item
            key={format}
            component="a"
            href={`${API}/alerts/export?${query}${query === "" ? "" : "&"}format=${format}`}
            download
          >
            {name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
