import { toText } from "../api/exactJson";
import type { Me, RuleDetail, StateName, Version } from "../api/types";

/** A permission of a role, as the server names it. */
export type Permission = Me["can"][number];

/** Whether the user has a permission. The server checks it again. */
export function allows(me: Me | undefined, permission: Permission): boolean {
  return me?.can.includes(permission) ?? false;
}

export interface Transition {
  to: StateName;
  label: string;
  requestLabel: string;
  /** The permission to make the transition alone. Other users can request it. */
  permission: Permission;
  /** Whether four eyes require a second person. */
  fourEyes?: boolean;
  /** Whether the transition cannot be requested. */
  cannotBeRequested?: boolean;
  /** A lesser permission that is enough for the author of the document. */
  authorPermission?: Permission;
}

const ACTIVATE: Transition = {
  to: "ACTIVE",
  label: "Activate",
  requestLabel: "Request activation",
  permission: "activate",
  fourEyes: true,
};
const SIGNAL: Transition = {
  ...ACTIVATE,
  to: "SIGNAL",
  label: "Make a signal",
  requestLabel: "Request signal",
};
const DELETE: Transition = { to: "DELETE", label: "Delete", requestLabel: "Request deletion", permission: "delete" };

const FROM_LIVE: Transition[] = [
  { to: "PAUSE", label: "Pause", requestLabel: "Request pause", permission: "pause" },
  { to: "SHADOW", label: "Move to shadow", requestLabel: "Request move to shadow", permission: "pause" },
  DELETE,
];

const TRANSITIONS: Record<StateName, Transition[]> = {
  DRAFT: [
    { to: "SHADOW", label: "Move to shadow", requestLabel: "", permission: "shadow", cannotBeRequested: true },
    { ...ACTIVATE, permission: "control", cannotBeRequested: true },
    { ...DELETE, authorPermission: "draft" },
  ],
  SHADOW: [ACTIVATE, SIGNAL, { ...DELETE, permission: "shadow", cannotBeRequested: true }],
  ACTIVE: FROM_LIVE,
  SIGNAL: FROM_LIVE,
  PAUSE: [
    { ...ACTIVATE, label: "Resume", requestLabel: "Request resume" },
    SIGNAL,
    { to: "SHADOW", label: "Move to shadow", requestLabel: "Request move to shadow", permission: "activate" },
    DELETE,
  ],
  DELETE: [],
};

/** The transitions that a user may make or request. `needsApproval`: the transition becomes a request. */
export function transitionsFor(
  { state, nextStates, author }: Pick<RuleDetail, "state" | "nextStates" | "author">,
  me: Me,
): (Transition & { needsApproval: boolean })[] {
  return TRANSITIONS[state].flatMap((transition) => {
    const isAllowed = allows(
      me,
      transition.authorPermission && author === me.user ? transition.authorPermission : transition.permission,
    );
    if (
      !nextStates.includes(transition.to) ||
      (!isAllowed && (transition.cannotBeRequested === true || !allows(me, "request")))
    )
      return [];
    return [{ ...transition, needsApproval: !isAllowed || (transition.fourEyes === true && me.fourEyes) }];
  });
}

/** Whether a rollback becomes a request. An approver restores content that was approved before at once. */
export function rollbackNeedsApproval(state: StateName, to: Pick<Version, "approved">, me: Me): boolean {
  return editNeedsApproval(state, me) && !(to.approved && allows(me, "editLive"));
}

/** The percentages of keys in the order of a rollout. */
const ROLLOUT_STEPS = [1, 5, 20, 50, 100];

/** The percentage that follows that of a rule; null for a rule that is evaluated for all keys. */
export function nextRollout({ document }: Pick<RuleDetail, "document">): number | null {
  const percent = Number(toText(document["rolloutPercent"]) || 100);
  return ROLLOUT_STEPS.find((step) => step > percent) ?? null;
}

/** Whether an edit of a rule in this state becomes a request. */
export function editNeedsApproval(state: StateName, me: Me): boolean {
  if (state === "ACTIVE" || state === "SIGNAL") return me.fourEyes || !allows(me, "editLive");
  return state === "PAUSE" && !allows(me, "editLive");
}
