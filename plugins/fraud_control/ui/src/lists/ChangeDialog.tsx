import { Button, Group, SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { useApiMutation } from "../api/hooks";
import { keys } from "../api/keys";
import type { CollectionDiff, Me } from "../api/types";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { editNeedsApproval } from "../rules/lifecycle";
import { CommentInput } from "../components/CommentInput";
import { DiffTable } from "./DiffTable";
import { capital, type CollectionRow, kindOf, MAP, type Operation, pathOf, strongestState } from "./types";
import { ExpirySelect, expiryOf, ValuesInput } from "./ValuesInput";

const OPERATIONS = [
  { value: "ADD", label: "Add" },
  { value: "REMOVE", label: "Remove" },
  { value: "SET", label: "Replace all" },
];

interface Props {
  list: CollectionRow;
  me: Me;
  /** The value or key to remove, chosen in the table. */
  remove?: string;
  close: () => void;
}

/** Changes a list or map, with a preview. One of active rules may need a second person. */
export function ChangeDialog({ list, me, remove, close }: Props) {
  const kind = kindOf(list);
  const path = pathOf(kind, list.name);
  const [operation, setOperation] = useState<Operation>(remove === undefined ? "ADD" : "REMOVE");
  const [content, setContent] = useState("");
  const [days, setDays] = useState("");
  const [comment, setComment] = useState("");
  // The user has seen this revision. A newer one makes a replacement fail, so that no unseen change is lost.
  const [baseRevision] = useState(list.revision);
  const removed = kind === MAP ? { keys: [remove] } : { values: [remove] };
  const given = { operation, ...(remove === undefined ? { content } : removed) };
  const preview = useApiMutation<null, CollectionDiff>(
    () => ({ path: `${path}/preview`, method: "POST", body: given }),
    { quiet: true },
  );
  const save = useApiMutation<null, CollectionRow>(
    () => ({
      path: `${path}/changes`,
      method: "POST",
      body: { ...given, comment, ...(operation === "REMOVE" ? {} : expiryOf(days)) },
      ...(operation === "SET" ? { revision: baseRevision } : {}),
    }),
    {
      successMessage: ({ status }) =>
        status === 202 ? "Requested: another user must approve" : `${capital(kind.name)} changed`,
      invalidates: [keys[kind.plural], keys.approvals],
      quiet: true,
    },
  );
  const needsApproval = editNeedsApproval(strongestState(list), me);
  return (
    <Dialog close={close} title={`Change the ${kind.name} ${list.name}`} size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(null, { onSuccess: close });
        }}
      >
        {remove === undefined ? (
          <>
            <SegmentedControl
              aria-label="Operation"
              data={OPERATIONS}
              value={operation}
              onChange={(value) => {
                setOperation(value as Operation);
                preview.reset();
              }}
              mb="xs"
            />
            <ValuesInput
              label={operation === "REMOVE" && kind === MAP ? "Keys, one per line" : kind.line}
              content={content}
              change={(text) => {
                setContent(text);
                preview.reset();
              }}
            />
            {operation !== "REMOVE" && <ExpirySelect kind={kind} days={days} change={setDays} />}
          </>
        ) : (
          <p>
            Remove the {kind === MAP ? "key" : "value"} <strong className="code wrap">{remove}</strong> from the{" "}
            {kind.name}.
          </p>
        )}
        <CommentInput comment={comment} change={setComment} asksApproval={needsApproval} mt="xs" />
        {preview.error && <ErrorAlert error={preview.error} />}
        {save.error && <ErrorAlert error={save.error} />}
        {preview.data && <DiffTable kind={kind} diff={preview.data.body} label="Preview" />}
        <Group justify="flex-end" mt="md">
          {remove === undefined && (
            <Button variant="default" loading={preview.isPending} onClick={() => preview.mutate(null)}>
              Preview
            </Button>
          )}
          <Button type="submit" loading={save.isPending}>
            {needsApproval ? "Request change" : "Save"}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
