import { Menu } from "@mantine/core";
import { getText } from "../api/http";
import { ExportButton } from "../components/ExportButton";
import { notifyError } from "../notifications";

const FORMATS = { yaml: "YAML", json: "JSON", text: "One line per rule" } as const;

/** Downloads all rules except drafts. */
export function ExportMenu() {
  return (
    <ExportButton>
      {Object.entries(FORMATS).map(([form, name]) => (
        <Menu.Item key={form} onClick={() => void save(form)}>
          {name}
        </Menu.Item>
      ))}
    </ExportButton>
  );
}

async function save(form: string): Promise<void> {
  try {
    const content = await getText(`/export?format=${form}`);
    const url = URL.createObjectURL(new Blob([content], { type: "text/plain" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = `fraud-rules.${form === "text" ? "txt" : form}`;
    link.click();
    URL.revokeObjectURL(url);
  } catch (error) {
    notifyError(error);
  }
}
