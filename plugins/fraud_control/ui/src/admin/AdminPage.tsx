import { ActionIcon, Button, Group, Select, Table, Text, TextInput } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useApiMutation, useCan, useMe } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Bindings, ControlName } from "../api/types";
import { Dialog } from "../components/Dialog";
import { EmptyState } from "../components/EmptyState";
import { ErrorAlert } from "../components/ErrorAlert";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { Timestamp } from "../components/Timestamp";

const ROLES = [
  { value: "viewer", label: "viewer: read only" },
  { value: "auditor", label: "auditor: read, audit log" },
  { value: "analyst", label: "analyst: drafts, shadow" },
  { value: "approver", label: "approver: active rules" },
  { value: "admin", label: "admin: roles, controls" },
];

const CONTROLS: Record<ControlName, { title: string; description: string; confirmByTyping: boolean }> = {
  EXPORT_RULES_CURRENT: {
    title: "Export rules in force",
    description: "The detector writes its current rules to the topic current-rules. No rule changes.",
    confirmByTyping: false,
  },
  CLEAR_STATE_ALL: {
    title: "Clear all state",
    description:
      "Every window restarts empty: earlier transactions do not count. Frauds in progress can go undetected.",
    confirmByTyping: true,
  },
  CLEAR_STATE_ALL_STOP: {
    title: "Clear all state and stop",
    description:
      "Every window restarts empty and the detector stops. Nothing is detected until you start the detector again.",
    confirmByTyping: true,
  },
  DELETE_RULES_ALL: {
    title: "Delete all rules",
    description: "Every rule ends. Nothing is detected until new rules are active. The revisions stay here.",
    confirmByTyping: true,
  },
};

/** The roles of users, and the controls that concern all rules. */
export default function AdminPage() {
  usePageTitle("Roles & controls");
  const can = useCan();
  if (!can("control")) {
    return (
      <>
        <PageHeader title="Roles & controls" />
        <EmptyState>Only admins assign roles and send controls.</EmptyState>
      </>
    );
  }
  return (
    <>
      <PageHeader title="Roles & controls" />
      <div style={{ display: "grid", gap: "1rem" }}>
        <Roles />
        <Controls />
      </div>
    </>
  );
}

function Roles() {
  const me = useMe();
  const bindings = useQuery({ queryKey: keys.bindings, queryFn: ({ signal }) => get<Bindings>("/bindings", signal) });
  const invalidates = [keys.bindings, keys.me];
  const assign = useApiMutation<{ user: string; role: string }>(
    ({ user, role }) => ({ path: `/bindings/${encodeURIComponent(user)}`, method: "PUT", body: { role } }),
    { successMessage: "Role assigned", invalidates },
  );
  const remove = useApiMutation<string>(
    (user) => ({ path: `/bindings/${encodeURIComponent(user)}`, method: "DELETE" }),
    {
      successMessage: "Role removed",
      invalidates,
    },
  );
  return (
    <section className="panel" aria-label="Roles">
      <h2>Roles</h2>
      <Text size="sm" c="dimmed" mb="sm">
        Users are Airflow login names. Each role includes the roles before it, but an analyst does not read the audit
        log.
      </Text>
      <QueryResult query={bindings}>
        {({ items }) => (
          <RowTable label="Roles" columns={["User", "Role", "Assigned by"]} actions>
            {items.map(({ user, role, by, at }) => (
              <Table.Tr key={user}>
                <Table.Td className="wrap" style={{ minWidth: "6rem" }}>
                  {user}
                </Table.Td>
                <Table.Td>
                  <Select
                    aria-label={`Role of ${user}`}
                    data={ROLES}
                    value={role}
                    allowDeselect={false}
                    disabled={user === me.data?.user}
                    onChange={(value) => {
                      if (value && value !== role) assign.mutate({ user, role: value });
                    }}
                    miw="12rem"
                  />
                </Table.Td>
                <Table.Td className="wrap" style={{ minWidth: "10rem" }}>
                  {by ?? "settings file"}
                  {at !== null && (
                    <>
                      , <Timestamp ms={at} />
                    </>
                  )}
                </Table.Td>
                <Table.Td>
                  <ActionIcon
                    variant="subtle"
                    color="red"
                    aria-label={`Remove role of ${user}`}
                    disabled={user === me.data?.user}
                    onClick={() => remove.mutate(user)}
                  >
                    <IconTrash size={16} aria-hidden />
                  </ActionIcon>
                </Table.Td>
              </Table.Tr>
            ))}
          </RowTable>
        )}
      </QueryResult>
      <RoleForm assign={(user, role) => assign.mutate({ user, role })} />
    </section>
  );
}

function RoleForm({ assign }: { assign: (user: string, role: string) => void }) {
  const [user, setUser] = useState("");
  const [role, setRole] = useState("viewer");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        assign(user.trim(), role);
        setUser("");
      }}
    >
      <Group gap="xs" align="flex-end" mt="sm">
        <TextInput label="User" value={user} maxLength={100} onChange={(event) => setUser(event.currentTarget.value)} />
        <Select
          label="Role"
          data={ROLES}
          value={role}
          allowDeselect={false}
          onChange={(value) => setRole(value ?? "viewer")}
          w="17rem"
        />
        <Button type="submit" size="sm" disabled={user.trim() === ""}>
          Assign
        </Button>
      </Group>
    </form>
  );
}

function Controls() {
  const [selected, setSelected] = useState<ControlName | null>(null);
  return (
    <section className="panel" aria-label="Controls">
      <h2>Controls</h2>
      <ul style={{ listStyle: "none", margin: 0, padding: 0 }}>
        {(Object.keys(CONTROLS) as ControlName[]).map((control) => (
          <li key={control}>
            <Group justify="space-between" gap="sm" py="xs" style={{ borderTop: "1px solid var(--line)" }}>
              <div style={{ flex: "1 1 16rem" }}>
                <strong>{CONTROLS[control].title}</strong>
                <Text size="sm" c="dimmed">
                  {CONTROLS[control].description}
                </Text>
              </div>
              <Button
                variant="default"
                {...(CONTROLS[control].confirmByTyping ? { c: "var(--bad)" } : {})}
                onClick={() => setSelected(control)}
              >
                {CONTROLS[control].title} …
              </Button>
            </Group>
          </li>
        ))}
      </ul>
      {selected && <ControlDialog control={selected} close={() => setSelected(null)} />}
    </section>
  );
}

function ControlDialog({ control, close }: { control: ControlName; close: () => void }) {
  const { title, description, confirmByTyping } = CONTROLS[control];
  const [confirm, setConfirm] = useState("");
  const [comment, setComment] = useState("");
  const send = useApiMutation<null>(
    () => ({ path: "/controls", method: "POST", body: { control, confirm, comment } }),
    {
      successMessage: `${control} sent`,
      invalidates: [keys.rules],
      quiet: true,
    },
  );
  return (
    <Dialog close={close} title={title}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send.mutate(null, { onSuccess: close });
        }}
      >
        <Text size="sm" mb="sm">
          {description}
        </Text>
        {confirmByTyping && (
          <TextInput
            label={`Type ${control} to confirm`}
            data-autofocus
            autoComplete="off"
            value={confirm}
            onChange={(event) => setConfirm(event.currentTarget.value)}
          />
        )}
        <TextInput
          label="Comment"
          mt="sm"
          value={comment}
          maxLength={500}
          onChange={(event) => setComment(event.currentTarget.value)}
        />
        {send.error && <ErrorAlert error={send.error} />}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button
            type="submit"
            color={confirmByTyping ? "red.9" : "indigo"}
            loading={send.isPending}
            disabled={confirmByTyping && confirm !== control}
          >
            {title}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
