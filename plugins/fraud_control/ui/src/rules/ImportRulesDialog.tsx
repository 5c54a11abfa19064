import { Table } from "@mantine/core";
import { keys } from "../api/keys";
import type { ImportResult } from "../api/types";
import { Chip } from "../components/Chip";
import { ReasonList } from "../components/ErrorAlert";
import { EFFECT_TONES, ImportDialog } from "../components/ImportDialog";
import { ScrollableTable } from "../components/ScrollableTable";

/** Imports a file of rules, after a preview of its effects. */
export function ImportRulesDialog({ close }: { close: () => void }) {
  return (
    <ImportDialog<ImportResult>
      title="Import rules"
      label="Rules (JSON, YAML or one line per rule)"
      path="/import"
      invalidates={[keys.rules, keys.approvals]}
      staleError="The rules changed after the preview, and the file is not valid for them."
      close={close}
    >
      {(result) => <ImportPreview result={result} />}
    </ImportDialog>
  );
}

function ImportPreview({ result }: { result: ImportResult }) {
  return (
    <ScrollableTable label="Import preview" columns={["Entry", "Rule", "Effect"]}>
      {result.items.map((item, i) => (
        <Table.Tr key={i}>
          <Table.Td>{item.where}</Table.Td>
          <Table.Td className="number">{item.ruleId ?? "–"}</Table.Td>
          <Table.Td>
            <Chip tone={EFFECT_TONES[item.effect] ?? "quiet"}>{item.effect}</Chip>
            <ReasonList reasons={item.reasons} />
          </Table.Td>
        </Table.Tr>
      ))}
    </ScrollableTable>
  );
}
