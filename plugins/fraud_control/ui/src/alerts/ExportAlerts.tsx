import { Menu } from "@mantine/core";
import { API } from "../api/http";
import { ExportButton } from "../components/ExportButton";

const FORMATS = { csv: "CSV", parquet: "Parquet" } as const;

/** Downloads the alerts of the search as a file. `query` is the query string of the search. */
export function ExportAlerts({ query }: { query: string }) {
  return (
    <ExportButton>
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
    </ExportButton>
  );
}
