import { Button, Group, Select, TextInput } from "@mantine/core";
import { useState } from "react";
import { useNavigate } from "react-router";
import { useApiMutation } from "../api/hooks";
import { keys } from "../api/keys";
import type { ListRow } from "../api/types";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { CommentInput } from "../components/CommentInput";
import { ExpirySelect, expiryOf, ValuesInput } from "./ValuesInput";

/** Creates a list with its values. */
export function NewListDialog({ close }: { close: () => void }) {
  const [name, setName] = useState("");
  const [type, setType] = useState("long");
  const [content, setContent] = useState("");
  const [days, setDays] = useState("");
  const [comment, setComment] = useState("");
  const navigate = useNavigate();
  const create = useApiMutation<null, ListRow>(
    () => ({ path: "/lists", method: "POST", body: { name, type, content, comment, ...expiryOf(days) } }),
    { successMessage: `List ${name} created`, invalidates: [keys.lists], quiet: true },
  );
  return (
    <Dialog close={close} title="New list" size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate(null, { onSuccess: ({ body }) => void navigate(`/lists/${body.name}`) });
        }}
      >
        <Group align="flex-start" mb="xs">
          <TextInput
            label="Name"
            description="Lower-case letters, digits, - and _"
            data-autofocus
            value={name}
            maxLength={63}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <Select
            label="Type"
            description="The type of the field in rules"
            data={["long", "string"]}
            value={type}
            allowDeselect={false}
            onChange={(value) => setType(value ?? "long")}
          />
        </Group>
        <ValuesInput content={content} change={setContent} />
        <ExpirySelect days={days} change={setDays} />
        <CommentInput comment={comment} change={setComment} mt="xs" />
        {create.error && <ErrorAlert error={create.error} />}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" disabled={name === ""} loading={create.isPending}>
            Create
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
