import type { Me, RuleDetail, StateName } from "../api/types";

/** What a role can allow, as the server names it. */
export type Permission = Me["can"][number];

/** Whether somebody may do this; the server decides again. */
export function allows(me: Me | undefined, permission: Permission): boolean {
  return me?.can.includes(permission) ?? false;
}

export interface Step {
  to: StateName;
  label: string;
  ask: string;
  /** What one must be allowed to do to take it alone; others may ask for it. */
  needs: Permission;
  /** Whether it takes a second person where four eyes are asked for. */
  weighty?: boolean;
  /** Nobody can ask for it. */
  alone?: boolean;
  /** What the author of the document must be allowed to do for it, where that is less. */
  own?: Permission;
}

const ACTIVATE: Step = { to: "ACTIVE", label: "Activate", ask: "Request activation", needs: "activate", weighty: true };
const DELETE: Step = { to: "DELETE", label: "Delete", ask: "Request deletion", needs: "delete" };

const STEPS: Record<StateName, Step[]> = {
  DRAFT: [
    { to: "SHADOW", label: "Move to shadow", ask: "", needs: "shadow", alone: true },
    { ...ACTIVATE, needs: "control", alone: true },
    { ...DELETE, own: "draft" },
  ],
  SHADOW: [ACTIVATE, { ...DELETE, needs: "shadow", alone: true }],
  ACTIVE: [
    { to: "PAUSE", label: "Pause", ask: "Request pause", needs: "pause" },
    { to: "SHADOW", label: "Move to shadow", ask: "Request move to shadow", needs: "pause" },
    DELETE,
  ],
  PAUSE: [
    { ...ACTIVATE, label: "Resume", ask: "Request resume" },
    { to: "SHADOW", label: "Move to shadow", ask: "Request move to shadow", needs: "activate" },
    DELETE,
  ],
  DELETE: [],
};

/** What can be offered to somebody for a rule; the server decides. `asks`: it would become a request. */
export function stepsFor(
  { state, nextStates, author }: Pick<RuleDetail, "state" | "nextStates" | "author">,
  me: Me,
): (Step & { asks: boolean })[] {
  return STEPS[state].flatMap((step) => {
    const may = allows(me, step.own && author === me.user ? step.own : step.needs);
    if (!nextStates.includes(step.to) || (!may && (step.alone === true || !allows(me, "request")))) return [];
    return [{ ...step, asks: !may || (step.weighty === true && me.fourEyes) }];
  });
}

/** Whether a new document for a rule in this state would become a request. */
export function editAsks(state: StateName, me: Me): boolean {
  if (state === "ACTIVE") return me.fourEyes || !allows(me, "editLive");
  return state === "PAUSE" && !allows(me, "editLive");
}
