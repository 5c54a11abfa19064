import { Button, Text, Tooltip } from "@mantine/core";
import { useState } from "react";
import type { Me, RuleDetail, StateName } from "../api/types";
import { stateName } from "../components/Chip";
import { type Transition, transitionsFor } from "./lifecycle";
import { RuleChangeDialog } from "./RuleChangeDialog";

const DESCRIPTIONS: Record<StateName, string> = {
  DRAFT: "",
  SHADOW: "The detector evaluates the rule and writes its alerts to a separate topic. No customer is affected.",
  ACTIVE: "The detector evaluates the rule and publishes its alerts.",
  SIGNAL: "The detector evaluates the rule, but publishes no alerts.",
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
  transition: { to, needsApproval, label, requestLabel },
  close,
}: {
  rule: RuleDetail;
  transition: Transition & { needsApproval: boolean };
  close: () => void;
}) {
  const name = needsApproval ? requestLabel : label;
  return (
    <RuleChangeDialog
      rule={rule}
      needsApproval={needsApproval}
      title={`${name}: rule ${rule.ruleId}`}
      label={name}
      color={to === "DELETE" ? "red.9" : "indigo"}
      request={({ ruleId }, comment) => ({
        path: `/rules/${ruleId}/state`,
        method: "POST",
        body: { state: to, comment },
      })}
      successMessage={({ ruleId, state }) => `Rule ${ruleId}: ${stateName(state).toLowerCase()}`}
      close={close}
    >
      <Text size="sm">
        {DESCRIPTIONS[to]}
        {!needsApproval && rule.pendingApproval && " The pending request lapses."}
      </Text>
    </RuleChangeDialog>
  );
}
