import { Button, Group, Modal, Radio, Select, TextInput } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../api/hooks";
import { keys } from "../api/keys";
import { keyText } from "../parts/format";
import { Trouble } from "../parts/Told";

const SPANS = [
  { value: "15", label: "15 minutes" },
  { value: "60", label: "1 hour" },
  { value: "480", label: "8 hours" },
  { value: "1440", label: "1 day" },
  { value: "10080", label: "7 days" },
];

interface Props {
  ruleId: number;
  alertKey: Record<string, unknown>;
  /** Called once they are. */
  snoozed: () => void;
}

/** Keep alerts of a rule, or of one key of it, out of sight for a time. The detector goes on writing them. */
export function SnoozeButton({ ruleId, alertKey, snoozed }: Props) {
  const [open, setOpen] = useState(false);
  const [whole, setWhole] = useState("key");
  const [minutes, setMinutes] = useState("60");
  const [reason, setReason] = useState("");
  const snooze = useChange<number>(
    (until) => ({
      path: "/snoozes",
      method: "POST",
      body: { ruleId, key: whole === "rule" ? null : alertKey, until, reason },
    }),
    { said: "Snoozed", affects: [keys.snoozes], quiet: true },
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
                snoozed();
              },
            });
          }}
        >
          <Radio.Group label="Scope" value={whole} onChange={setWhole}>
            <Radio value="key" label={`Alerts for ${keyText(alertKey)}`} my={6} />
            <Radio value="rule" label="All alerts of the rule" />
          </Radio.Group>
          <Select
            label="Duration"
            data={SPANS}
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
          {snooze.error && <Trouble error={snooze.error} />}
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
