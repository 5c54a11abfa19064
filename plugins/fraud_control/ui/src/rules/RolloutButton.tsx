import { Button, Group, Text, Tooltip } from "@mantine/core";
import { useState } from "react";
import { stringifyExactly, toText } from "../api/exactJson";
import { useApiMutation } from "../api/hooks";
import { keys } from "../api/keys";
import type { Me, RuleDetail } from "../api/types";
import { CommentInput } from "../components/CommentInput";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { allows, editNeedsApproval, nextRollout } from "./lifecycle";

/** The next step of a rollout as a button. It changes the rule as an edit does, so it asks for the same approval. */
export function RolloutButton({ rule, me, unsaved }: { rule: RuleDetail; me: Me; unsaved: boolean }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const percent = nextRollout(rule);
  if (percent === null || rule.state === "DELETE" || !allows(me, "draft")) return null;
  const needsApproval = editNeedsApproval(rule.state, me);
  const blocked = unsaved
    ? "Save or discard your edit first"
    : needsApproval && rule.pendingApproval
      ? "A request is already awaiting approval"
      : null;
  return (
    <>
      <Tooltip label={blocked ?? effectOf(rule, percent)}>
        <Button
          variant="default"
          {...(blocked === null ? {} : { "data-disabled": true })}
          aria-disabled={blocked !== null}
          onClick={() => {
            if (blocked === null) setChosen(percent);
          }}
        >
          {labelOf(percent, needsApproval)}
        </Button>
      </Tooltip>
      {chosen !== null && (
        <RolloutDialog rule={rule} percent={chosen} needsApproval={needsApproval} close={() => setChosen(null)} />
      )}
    </>
  );
}

interface DialogProps {
  rule: RuleDetail;
  percent: number;
  needsApproval: boolean;
  close: () => void;
}

function RolloutDialog({ rule, percent, needsApproval, close }: DialogProps) {
  const [comment, setComment] = useState("");
  // The user has seen this revision. A newer one makes the request fail, so that no unseen change takes effect.
  const [base] = useState(rule);
  const save = useApiMutation<string, RuleDetail>(
    (reason) => ({
      path: `/rules/${base.ruleId}`,
      method: "PUT",
      body: { text: stringifyExactly({ ...base.document, rolloutPercent: percent }), comment: reason },
      revision: base.revision,
    }),
    {
      successMessage: ({ status, body }) =>
        status === 202
          ? "Requested: another user must approve"
          : `Rule ${body.ruleId} saved as revision ${body.revision}`,
      invalidates: [keys.approvals, keys.versions(base.ruleId), keys.ruleList],
      updates: keys.rule(base.ruleId),
      quiet: true,
    },
  );
  const label = labelOf(percent, needsApproval);
  return (
    <Dialog close={close} title={`${label}: rule ${base.ruleId}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(comment, { onSuccess: close });
        }}
      >
        <Text size="sm" mb="sm">
          {effectOf(base, percent)}
        </Text>
        <CommentInput comment={comment} change={setComment} asksApproval={needsApproval} data-autofocus />
        {save.error && <ErrorAlert error={save.error} />}
        <Group justify="flex-end" mt="md" gap="xs">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" loading={save.isPending}>
            {label}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}

function labelOf(percent: number, needsApproval: boolean): string {
  return needsApproval ? `Request rollout to ${percent} %` : `Roll out to ${percent} %`;
}

function effectOf(rule: RuleDetail, percent: number): string {
  return `The detector evaluates the rule for ${percent} % of its keys instead of ${toText(rule.document["rolloutPercent"])} %. The present keys stay.`;
}
