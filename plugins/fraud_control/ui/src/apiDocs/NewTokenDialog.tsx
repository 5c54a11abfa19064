import { Button, Code, Group, Select, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useApiMutation, useMe } from "../api/hooks";
import { keys } from "../api/keys";
import type { NewProgramToken } from "../api/types";
import { CopyButton } from "../components/CopyButton";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";

const DAYS = ["7", "30", "90", "365"].map((value) => ({ value, label: `${value} days` }));

/** Creates a token, and shows its secret. */
export function NewTokenDialog({ close }: { close: () => void }) {
  const { data: me } = useMe();
  const [name, setName] = useState("");
  const [role, setRole] = useState("viewer");
  const [days, setDays] = useState("90");
  const create = useApiMutation<null, NewProgramToken>(
    () => ({ path: "/tokens", method: "POST", body: { name: name.trim(), role, expiresInDays: Number(days) } }),
    { invalidates: [keys.tokens], quiet: true },
  );
  const secret = create.data?.body.secret;
  if (secret !== undefined) return <SecretDialog secret={secret} close={close} />;
  return (
    <Dialog close={close} title="New token">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate(null);
        }}
      >
        <TextInput
          label="Name of the program"
          data-autofocus
          autoComplete="off"
          value={name}
          maxLength={63}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <Group grow mt="sm">
          <Select
            label="Highest role"
            data={me?.roles ?? []}
            value={role}
            allowDeselect={false}
            onChange={(value) => setRole(value ?? "viewer")}
          />
          <Select
            label="Valid for"
            data={DAYS}
            value={days}
            allowDeselect={false}
            onChange={(value) => setDays(value ?? "90")}
          />
        </Group>
        {create.error && <ErrorAlert error={create.error} />}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" disabled={name.trim() === ""} loading={create.isPending}>
            Create
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}

function SecretDialog({ secret, close }: { secret: string; close: () => void }) {
  return (
    <Dialog close={close} title="Secret of the token">
      <Text size="sm" mb="sm">
        Copy the secret now. No page shows it again.
      </Text>
      <Code style={{ overflowWrap: "anywhere" }}>{secret}</Code> <CopyButton name="secret" value={secret} />
      <Group justify="flex-end" mt="md">
        <Button onClick={close}>Close</Button>
      </Group>
    </Dialog>
  );
}
