import { Button, Text, Tooltip } from "@mantine/core";
import { useState } from "react";
import { stringifyExactly, toText } from "../api/exactJson";
import type { Me, RuleDetail } from "../api/types";
import { allows, editNeedsApproval, nextRollout } from "./lifecycle";
import { RuleChangeDialog } from "./RuleChangeDialog";

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
        <RuleChangeDialog
          rule={rule}
          needsApproval={needsApproval}
          title={`${labelOf(chosen, needsApproval)}: rule ${rule.ruleId}`}
          label={labelOf(chosen, needsApproval)}
          request={(base, comment) => ({
            path: `/rules/${base.ruleId}`,
            method: "PUT",
            body: { text: stringifyExactly({ ...base.document, rolloutPercent: chosen }), comment },
          })}
          successMessage={({ ruleId, revision }) => `Rule ${ruleId} saved as revision ${revision}`}
          close={() => setChosen(null)}
        >
          <Text size="sm">{effectOf(rule, chosen)}</Text>
        </RuleChangeDialog>
      )}
    </>
  );
}

function labelOf(percent: number, needsApproval: boolean): string {
  return needsApproval ? `Request rollout to ${percent} %` : `Roll out to ${percent} %`;
}

function effectOf(rule: RuleDetail, percent: number): string {
  return `The detector evaluates the rule for ${percent} % of its keys instead of ${toText(rule.document["rolloutPercent"])} %. The present keys stay.`;
}
