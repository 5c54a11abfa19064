import { Button, Group, Text, Tooltip } from "@mantine/core";
import { useState } from "react";
import { useApiMutation } from "../api/hooks";
import { keys } from "../api/keys";
import type { Me, RuleDetail, StateName } from "../api/types";
import { stateName } from "../components/Chip";
import { CommentInput } from "../components/CommentInput";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { type Transition, transitionsFor } from "./lifecycle";

const DESCRIPTIONS: Record<StateName, string> = {
  DRAFT: "",
  SHADOW: "The detector evaluates the rule and writes its alerts to a separate topic. No customer is affected.",
  ACTIVE: "The detector evaluates the rule and publishes its alerts.",
  PAUSE: "The detector keeps the rule but does not evaluate it. You can resume the rule at any time.",
  DELETE: "The rule ends. Its revisions stay here.",
};

/** The states in which the detector does not evaluate a rule. */
const STOPS: ReadonlySet<StateName> = new Set(["PAUSE", "DELETE"]);

/** The transitions that the user may make or request, as buttons. */
export function StateButtons({ rule, me, unsaved }: { rule: RuleDetail; me: Me; unsaved: boolean }) {
  const [chosen, setChosen] = useState<(Transition & { needsApproval: boolean }) | null>(null);
  return (
    <>
      {transitionsFor(rule, me).map((transition) => {
        const blocked = blockedReason(rule, transition, unsaved);
        return (
          <Tooltip key={transition.to} label={blocked ?? DESCRIPTIONS[transition.to]}>
            <Button
              variant={
                transition.to === "ACTIVE" || (rule.state === "DRAFT" && transition.to === "SHADOW")
                  ? "filled"
                  : "default"
              }
              {...(blocked === null ? {} : { "data-disabled": true })}
              aria-disabled={blocked !== null}
              onClick={() => {
                if (blocked === null) setChosen(transition);
              }}
            >
              {transition.needsApproval ? transition.requestLabel : transition.label}
            </Button>
          </Tooltip>
        );
      })}
      {chosen && <TransitionDialog rule={rule} transition={chosen} close={() => setChosen(null)} />}
    </>
  );
}

/** The reason why a transition is blocked. A pending request never blocks a pause or deletion: the request lapses. */
function blockedReason(
  rule: RuleDetail,
  { to, needsApproval }: { to: StateName; needsApproval: boolean },
  unsaved: boolean,
): string | null {
  // A pause or deletion does not depend on the content, so it must not wait for an edit.
  if (unsaved && !STOPS.has(to)) return "Save or discard your edit first";
  return needsApproval && rule.pendingApproval ? "A request is already awaiting approval" : null;
}

function TransitionDialog({
  rule,
  transition,
  close,
}: {
  rule: RuleDetail;
  transition: Transition & { needsApproval: boolean };
  close: () => void;
}) {
  const [comment, setComment] = useState("");
  // The user has seen this revision. A newer one makes the request fail, so that no unseen change takes effect.
  const [baseRevision] = useState(rule.revision);
  const save = useApiMutation<string, RuleDetail>(
    (text) => ({
      path: `/rules/${rule.ruleId}/state`,
      method: "POST",
      body: { state: transition.to, comment: text },
      revision: baseRevision,
    }),
    {
      successMessage: ({ status, body }) =>
        status === 202
          ? "Requested: another user must approve"
          : `Rule ${rule.ruleId}: ${stateName(body.state).toLowerCase()}`,
      invalidates: [keys.approvals, keys.versions(rule.ruleId), keys.ruleList],
      updates: keys.rule(rule.ruleId),
      quiet: true,
    },
  );
  return (
    <Dialog
      close={close}
      title={`${transition.needsApproval ? transition.requestLabel : transition.label}: rule ${rule.ruleId}`}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(comment, { onSuccess: close });
        }}
      >
        <Text size="sm" mb="sm">
          {DESCRIPTIONS[transition.to]}
          {!transition.needsApproval && rule.pendingApproval && " The pending request lapses."}
        </Text>
        <CommentInput comment={comment} change={setComment} asksApproval={transition.needsApproval} data-autofocus />
        {save.error && <ErrorAlert error={save.error} />}
        <Group justify="flex-end" mt="md" gap="xs">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" loading={save.isPending} color={transition.to === "DELETE" ? "red.9" : "indigo"}>
            {transition.needsApproval ? transition.requestLabel : transition.label}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
