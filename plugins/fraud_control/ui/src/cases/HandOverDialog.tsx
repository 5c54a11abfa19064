import { Button, Group, TextInput } from "@mantine/core";
import { useState } from "react";
import type { CaseDetail } from "../api/types";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { useAssign } from "./useCaseChanges";

interface Props {
  detail: CaseDetail;
  receiver: string;
  close: () => void;
}

/** Hands a case over to another user, with a note for them. */
export function HandOverDialog({ detail, receiver, close }: Props) {
  const [note, setNote] = useState("");
  const assign = useAssign(detail, { quiet: true });
  return (
    <Dialog close={close} title={`Hand case ${detail.caseId} over to ${receiver}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          assign.mutate({ assignee: receiver, comment: note.trim() }, { onSuccess: close });
        }}
      >
        <TextInput
          label="Note"
          data-autofocus
          value={note}
          maxLength={2_000}
          onChange={(event) => setNote(event.currentTarget.value)}
        />
        {assign.error && <ErrorAlert error={assign.error} />}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" loading={assign.isPending}>
            Hand over
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
