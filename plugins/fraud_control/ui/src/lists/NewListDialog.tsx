import { Button, Group, Select, TextInput } from "@mantine/core";
import { useState } from "react";
import { useNavigate } from "react-router";
import { useApiMutation } from "../api/hooks";
import { keys } from "../api/keys";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { CommentInput } from "../components/CommentInput";
import { capital, type CollectionKind, type CollectionRow, MAP } from "./types";
import { ExpirySelect, expiryOf, ValuesInput } from "./ValuesInput";

/** Creates a list or map with its content. */
export function NewListDialog({ kind, close }: { kind: CollectionKind; close: () => void }) {
  const [name, setName] = useState("");
  const [type, setType] = useState("long");
  const [valueType, setValueType] = useState("decimal");
  const [content, setContent] = useState("");
  const [days, setDays] = useState("");
  const [comment, setComment] = useState("");
  const navigate = useNavigate();
  const types = kind === MAP ? { keyType: type, valueType } : { type };
  const create = useApiMutation<null, CollectionRow>(
    () => ({ path: `/${kind.plural}`, method: "POST", body: { name, ...types, content, comment, ...expiryOf(days) } }),
    { successMessage: `${capital(kind.name)} ${name} created`, invalidates: [keys[kind.plural]], quiet: true },
  );
  return (
    <Dialog close={close} title={`New ${kind.name}`} size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate(null, { onSuccess: ({ body }) => void navigate(`/${kind.plural}/${body.name}`) });
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
            label={kind === MAP ? "Key type" : "Type"}
            description="The type of the field in rules"
            data={["long", "string"]}
            value={type}
            allowDeselect={false}
            onChange={(value) => setType(value ?? "long")}
          />
          {kind === MAP && (
            <Select
              label="Value type"
              description="A number or a text"
              data={["decimal", "string"]}
              value={valueType}
              allowDeselect={false}
              onChange={(value) => setValueType(value ?? "decimal")}
            />
          )}
        </Group>
        <ValuesInput label={kind.line} content={content} change={setContent} />
        <ExpirySelect kind={kind} days={days} change={setDays} />
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
