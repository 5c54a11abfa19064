import { Button, FileButton, Group, Modal, Table, Textarea, TextInput } from "@mantine/core";
import { useRef, useState } from "react";
import { useChange } from "../api/hooks";
import { keys } from "../api/keys";
import type { ImportResult } from "../api/types";
import { failed } from "../parts/notices";
import { Chip, type Tone } from "../parts/Chip";
import { ScrolledTable } from "../parts/ScrolledTable";
import { Reasons, Trouble } from "../parts/Told";

const TONES: Record<string, Tone> = {
  added: "good",
  changed: "warn",
  requested: "warn",
  deleted: "bad",
  rejected: "bad",
};

/** A file of rules: first what it would do, then the doing of it. */
export function ImportDialog({ close }: { close: () => void }) {
  const [content, setContent] = useState("");
  const [comment, setComment] = useState("");
  const forgetFile = useRef<() => void>(null);
  const look = useChange<string, ImportResult>(
    (text) => ({
      path: "/import?dryRun=true",
      method: "POST",
      body: { content: text, comment },
    }),
    { quiet: true },
  );
  const apply = useChange<string, ImportResult>(
    (text) => ({ path: "/import?dryRun=false", method: "POST", body: { content: text, comment } }),
    {
      said: ({ body }) => (body.applied ? "File imported" : null),
      affects: [keys.rules, keys.approvals],
      quiet: true,
    },
  );
  // A file can have become wrong since it was looked at: then nothing of it is taken in.
  const result = apply.data?.body ?? look.data?.body;
  const refused = result?.items.some((item) => item.reasons.length > 0) ?? true;
  const change = (text: string) => {
    setContent(text);
    look.reset();
    apply.reset();
  };
  const choose = (file: File | null) => {
    // Or a file that was corrected could not be chosen again: a browser tells only of another choice.
    forgetFile.current?.();
    void file?.text().then(change, failed);
  };
  const error = look.error ?? apply.error;

  return (
    <Modal opened onClose={close} title="Import rules" size="xl">
      <Group mb="xs" align="flex-end">
        <FileButton onChange={choose} resetRef={forgetFile} accept=".json,.yaml,.yml,.txt,.jsonl">
          {(props) => (
            <Button variant="default" {...props}>
              Choose file …
            </Button>
          )}
        </FileButton>
      </Group>
      <Textarea
        label="Rules (JSON, YAML or one line per rule)"
        value={content}
        onChange={(event) => change(event.currentTarget.value)}
        autosize
        minRows={6}
        maxRows={14}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
      />
      <TextInput
        label="Comment"
        value={comment}
        onChange={(event) => setComment(event.currentTarget.value)}
        maxLength={500}
        mt="xs"
      />
      {error && <Trouble error={error} />}
      {apply.data?.body.applied === false && (
        <Trouble
          title="Nothing imported"
          error="The rules changed after the preview, and the file is not valid for them."
        />
      )}
      {result && <Effects result={result} />}
      <Group justify="flex-end" mt="md">
        <Button
          variant="default"
          disabled={content === ""}
          loading={look.isPending}
          onClick={() => {
            apply.reset();
            look.mutate(content);
          }}
        >
          Preview
        </Button>
        <Button
          disabled={refused}
          loading={apply.isPending}
          onClick={() => apply.mutate(content, { onSuccess: ({ body }) => body.applied && close() })}
        >
          Import
        </Button>
      </Group>
    </Modal>
  );
}

function Effects({ result }: { result: ImportResult }) {
  return (
    <ScrolledTable label="Import preview" columns={["Entry", "Rule", "Effect"]}>
      {result.items.map((item, i) => (
        <Table.Tr key={i}>
          <Table.Td>{item.where}</Table.Td>
          <Table.Td className="number">{item.ruleId ?? "–"}</Table.Td>
          <Table.Td>
            <Chip tone={TONES[item.effect] ?? "quiet"}>{item.effect}</Chip>
            <Reasons reasons={item.reasons} />
          </Table.Td>
        </Table.Tr>
      ))}
    </ScrolledTable>
  );
}
