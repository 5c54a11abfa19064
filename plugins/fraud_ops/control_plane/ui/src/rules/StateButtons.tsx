import { Button, Group, Modal, Text, TextInput, Tooltip } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../api/hooks";
import { keys } from "../api/keys";
import type { Me, RuleDetail, StateName } from "../api/types";
import { stateName } from "../parts/Chip";
import { Trouble } from "../parts/Told";
import { type Step, stepsFor } from "./lifecycle";

const MEANING: Record<StateName, string> = {
  DRAFT: "",
  SHADOW: "The detector evaluates the rule and writes its alerts to a separate topic. No customer is affected.",
  ACTIVE: "The detector evaluates the rule and publishes its alerts.",
  PAUSE: "The detector keeps the rule but does not evaluate it. You can resume the rule at any time.",
  DELETE: "The rule ends. Its revisions stay here.",
};

/** Where the rule can go from here, as far as one may, or may ask for. */
export function StateButtons({ rule, me, unsaved }: { rule: RuleDetail; me: Me; unsaved: boolean }) {
  const [chosen, setChosen] = useState<(Step & { asks: boolean }) | null>(null);
  return (
    <>
      {stepsFor(rule, me).map((step) => {
        const blocked = blockedBy(rule, step.asks, unsaved);
        return (
          <Tooltip key={step.to} label={blocked ?? MEANING[step.to]}>
            <Button
              variant={step.to === "ACTIVE" || (rule.state === "DRAFT" && step.to === "SHADOW") ? "filled" : "default"}
              {...(blocked === null ? {} : { "data-disabled": true })}
              aria-disabled={blocked !== null}
              onClick={() => {
                if (blocked === null) setChosen(step);
              }}
            >
              {step.asks ? step.ask : step.label}
            </Button>
          </Tooltip>
        );
      })}
      {chosen && <Move rule={rule} step={chosen} close={() => setChosen(null)} />}
    </>
  );
}

/** Why a step cannot be taken now. What waits for approval keeps nobody from ending harm: it lapses with the step. */
function blockedBy(rule: RuleDetail, asks: boolean, unsaved: boolean): string | null {
  if (unsaved) return "Save or discard your edit first";
  return asks && rule.pendingApproval ? "A request is already awaiting approval" : null;
}

function Move({ rule, step, close }: { rule: RuleDetail; step: Step & { asks: boolean }; close: () => void }) {
  const [comment, setComment] = useState("");
  // What somebody saves while this is open has not been looked at, and is not moved.
  const [seen] = useState(rule.revision);
  const move = useChange<string, RuleDetail>(
    (why) => ({
      path: `/rules/${rule.ruleId}/state`,
      method: "POST",
      body: { state: step.to, comment: why },
      revision: seen,
    }),
    {
      said: ({ status, body }) =>
        status === 202
          ? "Requested: another user must approve"
          : `Rule ${rule.ruleId}: ${stateName(body.state).toLowerCase()}`,
      affects: [keys.approvals, keys.versions(rule.ruleId), keys.ruleList],
      renews: keys.rule(rule.ruleId),
      quiet: true,
    },
  );
  return (
    <Modal opened onClose={close} title={`${step.asks ? step.ask : step.label}: rule ${rule.ruleId}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          move.mutate(comment, { onSuccess: close });
        }}
      >
        <Text size="sm" mb="sm">
          {MEANING[step.to]}
          {!step.asks && rule.pendingApproval && " The pending request lapses."}
        </Text>
        <TextInput
          label="Comment"
          data-autofocus
          value={comment}
          maxLength={500}
          onChange={(event) => setComment(event.currentTarget.value)}
        />
        {move.error && <Trouble error={move.error} />}
        <Group justify="flex-end" mt="md" gap="xs">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" loading={move.isPending} color={step.to === "DELETE" ? "red.9" : "indigo"}>
            {step.asks ? step.ask : step.label}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
