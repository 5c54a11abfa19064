import { Button, Checkbox, Group, MultiSelect, Select, TagsInput, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { SEVERITIES } from "../alerts/alertSearch";
import { useApiMutation, useRuleNames } from "../api/hooks";
import { keys } from "../api/keys";
import type { Subscription, SubscriptionRequest } from "../api/types";
import { TIME_ZONES } from "../calendar";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { EVENTS } from "./subscriptionText";
import { useReceivers } from "./useNotifications";

const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;

const NEW: SubscriptionRequest = {
  name: "",
  receiver: "",
  events: ["alert", "prediction"],
  severities: [],
  ruleIds: [],
  owners: [],
  timeZone: HERE,
  quietFrom: "",
  quietUntil: "",
  digestAt: "",
};

function termsOf(row: Subscription): SubscriptionRequest {
  const { name, receiver, events, severities, ruleIds, owners, timeZone, quietFrom, quietUntil, digestAt } = row;
  return { name, receiver, events, severities, ruleIds, owners, timeZone, quietFrom, quietUntil, digestAt };
}

/** Creates a subscription, or edits one. */
export function SubscriptionDialog({ edited, close }: { edited: Subscription | null; close: () => void }) {
  const [terms, setTerms] = useState<SubscriptionRequest>(edited ? termsOf(edited) : NEW);
  const receivers = useReceivers();
  const save = useApiMutation<null, Subscription>(
    () =>
      edited
        ? { path: `/subscriptions/${edited.id}`, method: "PUT", body: terms }
        : { path: "/subscriptions", method: "POST", body: terms },
    { successMessage: "Subscription saved", invalidates: [keys.subscriptions], quiet: true },
  );
  const change = (members: Partial<SubscriptionRequest>) => setTerms((before) => ({ ...before, ...members }));
  return (
    <Dialog close={close} title={edited ? `Edit ${edited.name}` : "New subscription"} size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(null, { onSuccess: close });
        }}
      >
        <Group grow align="flex-start" mb="sm">
          <TextInput
            label="Name"
            data-autofocus
            value={terms.name}
            maxLength={80}
            onChange={(event) => change({ name: event.currentTarget.value })}
          />
          <Select
            label="Receiver"
            data={receivers.data?.items.map(({ name, kind }) => ({ value: name, label: `${name} (${kind})` })) ?? []}
            value={terms.receiver === "" ? null : terms.receiver}
            allowDeselect={false}
            onChange={(receiver) => change({ receiver: receiver ?? "" })}
          />
        </Group>
        <EventFields terms={terms} change={change} />
        <FilterFields terms={terms} change={change} />
        <QuietFields terms={terms} change={change} />
        {save.error && <ErrorAlert error={save.error} />}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button
            type="submit"
            disabled={terms.name.trim() === "" || terms.receiver === "" || terms.events.length === 0}
            loading={save.isPending}
          >
            Save
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}

interface FieldsProps {
  terms: SubscriptionRequest;
  change: (members: Partial<SubscriptionRequest>) => void;
}

function EventFields({ terms, change }: FieldsProps) {
  const isDaily = terms.events.includes("digest");
  return (
    <Group mb="sm" align="flex-end">
      <Checkbox.Group
        label="Events"
        value={terms.events}
        onChange={(chosen) => {
          const events = chosen;
          change({ events, digestAt: events.includes("digest") ? terms.digestAt || "08:00" : "" });
        }}
      >
        <Group mt="xs">
          {Object.entries(EVENTS).map(([value, label]) => (
            <Checkbox key={value} value={value} label={label} />
          ))}
        </Group>
      </Checkbox.Group>
      {isDaily && (
        <TextInput
          type="time"
          label="Digest at"
          value={terms.digestAt}
          onChange={(event) => change({ digestAt: event.currentTarget.value })}
        />
      )}
    </Group>
  );
}

function FilterFields({ terms, change }: FieldsProps) {
  const names = useRuleNames();
  return (
    <>
      <Text size="sm" c="dimmed" mb="xs">
        An empty filter selects everything. Several filters all apply.
      </Text>
      <Group grow align="flex-start" mb="sm">
        <MultiSelect
          label="Severities"
          data={Object.entries(SEVERITIES).map(([value, label]) => ({ value, label }))}
          value={terms.severities ?? []}
          onChange={(severities) => change({ severities: severities as NonNullable<typeof terms.severities> })}
        />
        <MultiSelect
          label="Rules"
          searchable
          limit={100}
          data={[...names].map(([id, name]) => ({ value: String(id), label: `${id} ${name}` }))}
          value={(terms.ruleIds ?? []).map(String)}
          onChange={(ids) => change({ ruleIds: ids.map(Number) })}
        />
        <TagsInput label="Owners" value={terms.owners ?? []} onChange={(owners) => change({ owners })} />
      </Group>
    </>
  );
}

function QuietFields({ terms, change }: FieldsProps) {
  return (
    <Group grow align="flex-start">
      <TextInput
        type="time"
        label="Quiet from"
        value={terms.quietFrom ?? ""}
        onChange={(event) => change({ quietFrom: event.currentTarget.value })}
      />
      <TextInput
        type="time"
        label="Quiet until"
        value={terms.quietUntil ?? ""}
        onChange={(event) => change({ quietUntil: event.currentTarget.value })}
      />
      <Select
        label="Time zone"
        searchable
        limit={100}
        data={TIME_ZONES}
        value={terms.timeZone ?? "UTC"}
        allowDeselect={false}
        onChange={(zone) => change({ timeZone: zone ?? "UTC" })}
      />
    </Group>
  );
}
