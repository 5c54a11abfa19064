import { Table } from "@mantine/core";
import { keys } from "../api/keys";
import type { CollectionImportResult } from "../api/types";
import { Chip } from "../components/Chip";
import { ReasonList } from "../components/ErrorAlert";
import { EFFECT_TONES, ImportDialog } from "../components/ImportDialog";
import { ScrollableTable } from "../components/ScrollableTable";
import { formatNumber } from "../format";
import { capital, type CollectionKind, MAP } from "./types";

type Item = CollectionImportResult["items"][number];

const SHOWN = 20;

/** Imports a file of lists or maps, after a preview of what each one gains and loses. */
export function ImportListsDialog({ kind, close }: { kind: CollectionKind; close: () => void }) {
  return (
    <ImportDialog<CollectionImportResult>
      title={`Import ${kind.plural}`}
      label={`${capital(kind.plural)} (JSON, YAML or one line per ${kind === MAP ? "entry" : "value"}: ${kind.fileLine})`}
      path={`/import/${kind.plural}`}
      invalidates={[keys[kind.plural], keys.approvals]}
      staleError={`A ${kind.name} changed after the preview. Preview the file again.`}
      confirm={(previewed) => ({ revisions: revisionsOf(previewed) })}
      close={close}
    >
      {(result) => (
        <ScrollableTable label="Import preview" columns={["Entry", capital(kind.name), "Effect", "Added", "Removed"]}>
          {result.items.map((item, i) => (
            <Table.Tr key={i}>
              <Table.Td>{item.where}</Table.Td>
              <Table.Td>{item.name ?? "–"}</Table.Td>
              <Table.Td>
                <Chip tone={EFFECT_TONES[item.effect] ?? "quiet"}>{item.effect}</Chip>
                <ReasonList reasons={item.reasons} />
              </Table.Td>
              <Values count={item.diff.added} values={item.diff.addedValues} />
              <Values count={item.diff.removed} values={item.diff.removedValues} />
            </Table.Tr>
          ))}
        </ScrollableTable>
      )}
    </ImportDialog>
  );
}

/** The first values of a difference, and their number. */
function Values({ count, values }: { count: number; values: readonly string[] }) {
  const more = count - Math.min(values.length, SHOWN);
  return (
    <Table.Td className="code wrap">
      {values.slice(0, SHOWN).join(", ")}
      {more > 0 && ` and ${formatNumber(more)} more`}
    </Table.Td>
  );
}

/** The import rejects a list or map with another revision, so that no unseen change is lost. */
function revisionsOf({ items }: CollectionImportResult): Record<string, number> {
  return Object.fromEntries(items.flatMap(({ name, revision }: Item) => (name === null ? [] : [[name, revision]])));
}
