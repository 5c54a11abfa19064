import { Button, FileButton, Group, Modal, Table, Textarea, TextInput } from "@mantine/core";
import { useRef, useState } from "react";
import { useApiMutation } from "../api/hooks";
import { keys } from "../api/keys";
import type { ImportResult } from "../api/types";
import { Chip, type Tone } from "../components/Chip";
import { ErrorAlert, ReasonList } from "../components/ErrorAlert";
import { ScrollableTable } from "../components/ScrollableTable";
import { notifyError } from "../notifications";

const TONES: Record<string, Tone> = {
  added: "good",
  changed: "warn",
  requested: "warn",
  deleted: "bad",
  rejected: "bad",
};

/** Imports a file of rules, after a preview of its effects. */
export function ImportDialog({ close }: { close: () => void }) {
  const [content, setContent] = useState("");
  const [comment, setComment] = useState("");
  const resetFileInput = useRef<() => void>(null);
  const preview = useApiMutation<string, ImportResult>(
    (text) => ({
      path: "/import?dryRun=true",
      method: "POST",
      body: { content: text, comment },
    }),
    { quiet: true },
  );
  const apply = useApiMutation<string, ImportResult>(
    (text) => ({ path: "/import?dryRun=false", method: "POST", body: { content: text, comment } }),
    {
      successMessage: ({ body }) => (body.applied ? "File imported" : null),
      invalidates: [keys.rules, keys.approvals],
      quiet: true,
    },
  );
  // The import validates again. If it fails, its result replaces that of the preview.
  const result = apply.data?.body ?? preview.data?.body;
  const isInvalid = result?.items.some((item) => item.reasons.length > 0) ?? true;
  const change = (text: string) => {
    setContent(text);
    preview.reset();
    apply.reset();
  };
  const choose = (file: File | null) => {
    // A browser does not report the same file twice. The reset lets the user choose a corrected file again.
    resetFileInput.current?.();
    void file?.text().then(change, notifyError);
  };
  const error = preview.error ?? apply.error;

  return (
    <Modal opened onClose={close} title="Import rules" size="xl">
      <Group mb="xs" align="flex-end">
        <FileButton onChange={choose} resetRef={resetFileInput} accept=".json,.yaml,.yml,.txt,.jsonl">
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
      {error && <ErrorAlert error={error} />}
      {apply.data?.body.applied === false && (
        <ErrorAlert
          title="Nothing imported"
          error="The rules changed after the preview, and the file is not valid for them."
        />
      )}
      {result && <ImportPreview result={result} />}
      <Group justify="flex-end" mt="md">
        <Button
          variant="default"
          disabled={content === ""}
          loading={preview.isPending}
          onClick={() => {
            apply.reset();
            preview.mutate(content);
          }}
        >
          Preview
        </Button>
        <Button
          disabled={isInvalid}
          loading={apply.isPending}
          onClick={() => apply.mutate(content, { onSuccess: ({ body }) => body.applied && close() })}
        >
          Import
        </Button>
      </Group>
    </Modal>
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
            <Chip tone={TONES[item.effect] ?? "quiet"}>{item.effect}</Chip>
            <ReasonList reasons={item.reasons} />
          </Table.Td>
        </Table.Tr>
      ))}
    </ScrollableTable>
  );
}
