import { Button, Group, Modal, Radio, Select, TextInput } from "@mantine/core";
import { useState } from "react";
import { useApiMutation, useSchema } from "../api/hooks";
import { keys } from "../api/keys";
import { ErrorAlert } from "../components/ErrorAlert";
import { formatKey } from "../format";

const DURATIONS = [
  { value: "15", label: "15 minutes" },
  { value: "60", label: "1 hour" },
  { value: "480", label: "8 hours" },
  { value: "1440", label: "1 day" },
  { value: "10080", label: "7 days" },
];

interface Props {
  ruleId: number;
  alertKey: Record<string, unknown>;
  /** Called after the snooze is saved. */
  onSnoozed: () => void;
}

/** Hides the alerts of a rule, or of one key, for a time. The detector continues to write them. */
export function SnoozeButton({ ruleId, alertKey, onSnoozed }: Props) {
  const fields = useSchema().data?.fields;
  const [open, setOpen] = useState(false);
  const [scope, setScope] = useState("key");
  const [minutes, setMinutes] = useState("60");
  const [reason, setReason] = useState("");
  const snooze = useApiMutation<number>(
    (until) => ({
      path: "/snoozes",
      method: "POST",
      body: { ruleId, key: scope === "rule" ? null : alertKey, until, reason },
    }),
    { successMessage: "Snoozed", invalidates: [keys.snoozes], quiet: true },
  );
  return (
    <>
      <Button variant="default" onClick={() => setOpen(true)}>
        Snooze …
      </Button>
      <Modal opened={open} onClose={() => setOpen(false)} title={`Snooze alerts of rule ${ruleId}`}>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            snooze.mutate(Date.now() + Number(minutes) * 60_000, {
              onSuccess: () => {
                setOpen(false);
                onSnoozed();
              },
            });
          }}
        >
          <Radio.Group label="Scope" value={scope} onChange={setScope}>
            <Radio value="key" label={`Alerts for ${formatKey(alertKey, fields)}`} my={6} />
            <Radio value="rule" label="All alerts of the rule" />
          </Radio.Group>
          <Select
            label="Duration"
            data={DURATIONS}
            value={minutes}
            allowDeselect={false}
            onChange={(value) => setMinutes(value ?? "60")}
            mt="sm"
          />
          <TextInput
            label="Reason"
            value={reason}
            maxLength={500}
            onChange={(event) => setReason(event.currentTarget.value)}
            mt="sm"
          />
          {snooze.error && <ErrorAlert error={snooze.error} />}
          <Group justify="flex-end" mt="md">
            <Button variant="default" onClick={() => setOpen(false)}>
              Cancel
            </Button>
            <Button type="submit" loading={snooze.isPending}>
              Snooze
            </Button>
          </Group>
        </form>
      </Modal>
    </>
  );
}
