import { Menu } from "@mantine/core";
import { getText } from "../api/http";
import { notifyError } from "../notifications";
import { ExportButton } from "./ExportButton";

interface Props {
  /** The path of the export in the API. */
  path: string;
  /** The name of the file without its suffix. */
  name: string;
  /** The text form, by what one line has. */
  lines: string;
}

/** Downloads an export as YAML, JSON or text. */
export function ExportMenu({ path, name, lines }: Props) {
  const formats = { yaml: "YAML", json: "JSON", text: lines };
  return (
    <ExportButton>
      {Object.entries(formats).map(([form, label]) => (
        <Menu.Item key={form} onClick={() => void save(`${path}?format=${form}`, name, form)}>
          {label}
        </Menu.Item>
      ))}
    </ExportButton>
  );
}

async function save(path: string, name: string, form: string): Promise<void> {
  try {
    const content = await getText(path);
    const url = URL.createObjectURL(new Blob([content], { type: "text/plain" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = `${name}.${form === "text" ? "txt" : form}`;
    link.click();
    URL.revokeObjectURL(url);
  } catch (error) {
    notifyError(error);
  }
}
