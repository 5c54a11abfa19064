import { Button, Group, Select } from "@mantine/core";
import { useState } from "react";
import { toText } from "../api/exactJson";
import { useApiMutation, useLists, useMe } from "../api/hooks";
import { keys } from "../api/keys";
import type { Entity } from "../api/types";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { CommentInput } from "../components/CommentInput";
import { LIST, strongestState } from "../lists/types";
import { ExpirySelect, expiryOf } from "../lists/ValuesInput";
import { editNeedsApproval } from "../rules/lifecycle";

/** Adds the entity's value to a list. */
export function AddToList({ entity, close }: { entity: Pick<Entity, "value" | "lists">; close: () => void }) {
  const [name, setName] = useState<string | null>(null);
  const [days, setDays] = useState("");
  const [comment, setComment] = useState("");
  const { data } = useLists();
  const me = useMe().data;
  const add = useApiMutation<string>(
    (list) => ({
      path: `/lists/${encodeURIComponent(list)}/changes`,
      method: "POST",
      body: { operation: "ADD", values: [toText(entity.value)], comment, ...expiryOf(days) },
    }),
    {
      successMessage: ({ status }) => (status === 202 ? "Approval requested" : "Added to list"),
      invalidates: [keys.lists, keys.entities, keys.cases, keys.approvals],
      quiet: true,
    },
  );
  const type = typeof entity.value === "string" ? "string" : "long";
  const lists = (data?.items ?? []).filter((each) => !entity.lists.includes(each.name));
  const chosen = lists.find((each) => each.name === name);
  const needsApproval = me !== undefined && chosen !== undefined && editNeedsApproval(strongestState(chosen), me);
  return (
    <Dialog close={close} title={`Add ${toText(entity.value)} to a list`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (name !== null) add.mutate(name, { onSuccess: close });
        }}
      >
        <Select
          label="List"
          searchable
          data-autofocus
          data={lists.filter((each) => each.type === type).map((each) => each.name)}
          value={name}
          onChange={setName}
          nothingFoundMessage="No lists"
        />
        <ExpirySelect kind={LIST} days={days} change={setDays} />
        <CommentInput comment={comment} change={setComment} asksApproval={needsApproval} mt="xs" />
        {add.error && <ErrorAlert error={add.error} />}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" disabled={name === null} loading={add.isPending}>
            {needsApproval ? "Request change" : "Add"}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
