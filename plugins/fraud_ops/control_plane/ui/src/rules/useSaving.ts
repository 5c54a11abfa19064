import { useState } from "react";
import { useNavigate } from "react-router";
import { useChange } from "../api/hooks";
import { keys } from "../api/keys";
import type { RuleDetail } from "../api/types";
import { request } from "./editor/draft";
import type { Writing } from "./useRuleDraft";

/** The saving of a rule that is being written. */
export interface Saving {
  comment: string;
  setComment: (comment: string) => void;
  /** From the press to the answer. */
  busy: boolean;
  error: Error | null;
  /**
   * Save what is valid. Of anything else `showWrong` shows what is wrong with it; where it cannot, because the editor
   * has been left since, the server is asked to save it, and tells.
   */
  save: (showWrong: () => boolean) => void;
}

/**
 * A saving belongs to the page: it goes on whichever tab of it is looked at. A refusal is told where the editor is not
 * `inSight` to show it.
 */
export function useSaving(rule: RuleDetail | null, writing: Writing, inSight: boolean): Saving {
  const { draft, judged } = writing;
  const [comment, setComment] = useState("");
  const [busy, setBusy] = useState(false);
  const navigate = useNavigate();
  const send = useChange<ReturnType<typeof request> & { comment: string }, RuleDetail>(
    (body) =>
      rule
        ? { path: `/rules/${rule.ruleId}`, method: "PUT", body, revision: writing.base ?? rule.revision }
        : { path: "/rules", method: "POST", body },
    {
      said: ({ status, body }) =>
        status === 202
          ? "Requested: another user must approve"
          : `Rule ${body.ruleId} saved as revision ${body.revision}`,
      affects: [keys.approvals, keys.ruleList, ...(rule ? [keys.versions(rule.ruleId)] : [])],
      renews: rule ? keys.rule(rule.ruleId) : ({ ruleId }) => keys.rule(ruleId),
      quiet: inSight,
    },
  );

  const save = async (showWrong: () => boolean) => {
    if (busy) return;
    setBusy(true);
    const verdict = draft.fault === null ? await judged.ask() : null;
    if (!verdict?.valid && showWrong()) {
      setBusy(false);
      return;
    }
    send.mutate(
      { ...request(draft), comment },
      {
        onSuccess: ({ body: saved }) => {
          setComment("");
          if (rule === null) void navigate(`/rules/${saved.ruleId}`, { replace: true });
          else writing.reset(saved);
        },
        onSettled: () => setBusy(false),
      },
    );
  };
  return { comment, setComment, busy, error: send.error, save: (showWrong) => void save(showWrong) };
}
