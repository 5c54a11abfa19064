import { Button, FileButton, Group, Textarea } from "@mantine/core";
import { type ReactNode, useRef, useState } from "react";
import { useApiMutation } from "../api/hooks";
import type { Reason } from "../api/types";
import { notifyError } from "../notifications";
import type { Tone } from "./Chip";
import { CommentInput } from "./CommentInput";
import { Dialog } from "./Dialog";
import { ErrorAlert } from "./ErrorAlert";

/** The tone of each effect of an import. */
export const EFFECT_TONES: Record<string, Tone> = {
  added: "good",
  changed: "warn",
  requested: "warn",
  deleted: "bad",
  rejected: "bad",
};

interface Result {
  items: readonly { effect: string; reasons: readonly Reason[] }[];
  applied: boolean;
}

interface Props<R extends Result> {
  title: string;
  /** The label of the content, with its forms. */
  label: string;
  /** The path of the import in the API. */
  path: string;
  invalidates: readonly (readonly unknown[])[];
  /** The error after an import of a file that became invalid after the preview. */
  staleError: string;
  /** Further members of the request, from the result of the preview. */
  confirm?: (previewed: R) => object;
  children: (result: R) => ReactNode;
  close: () => void;
}

/** Imports a file, after a preview of its effects, which `children` shows. */
export function ImportDialog<R extends Result>(props: Props<R>) {
  const { title, label, path, invalidates, staleError, confirm, children, close } = props;
  const [content, setContent] = useState("");
  const [comment, setComment] = useState("");
  const resetFileInput = useRef<() => void>(null);
  const commentRef = useRef<HTMLInputElement>(null);
  const preview = useApiMutation<string, R>(
    (text) => ({ path: `${path}?dryRun=true`, method: "POST", body: { content: text, comment } }),
    { quiet: true },
  );
  const previewed = preview.data?.body;
  const apply = useApiMutation<string, R>(
    (text) => ({
      path: `${path}?dryRun=false`,
      method: "POST",
      body: { content: text, comment, ...(previewed && confirm?.(previewed)) },
    }),
    {
      successMessage: ({ body }) => (body.applied ? "File imported" : null),
      invalidates,
      quiet: true,
    },
  );
  // The import validates again. If it fails, its result replaces that of the preview.
  const result = apply.data?.body ?? previewed;
  const asksApproval = result?.items.some(({ effect }) => effect === "requested") ?? false;
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
    <Dialog close={close} title={title} size="xl">
      <Group mb="xs" align="flex-end">
        <FileButton onChange={choose} resetRef={resetFileInput} accept=".json,.yaml,.yml,.txt,.jsonl">
          {(button) => (
            <Button variant="default" {...button}>
              Choose file …
            </Button>
          )}
        </FileButton>
      </Group>
      <Textarea
        label={label}
        value={content}
        onChange={(event) => change(event.currentTarget.value)}
        autosize
        minRows={6}
        maxRows={14}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
      />
      <CommentInput ref={commentRef} comment={comment} change={setComment} asksApproval={asksApproval} mt="xs" />
      {error && <ErrorAlert error={error} />}
      {apply.data?.body.applied === false && <ErrorAlert title="Nothing imported" error={staleError} />}
      {result && children(result)}
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
          onClick={() => {
            if (commentRef.current?.reportValidity() === false) return;
            apply.mutate(content, { onSuccess: ({ body }) => body.applied && close() });
          }}
        >
          Import
        </Button>
      </Group>
    </Dialog>
  );
}
