import { useState } from "react";
import { useNavigate } from "react-router";
import { useApiMutation } from "../api/hooks";
import { keys } from "../api/keys";
import type { RuleDetail } from "../api/types";
import { requestBody } from "./editor/draft";
import type { RuleEdit } from "./useRuleEdit";

/** The save of an edited rule. */
export interface RuleSave {
  comment: string;
  setComment: (comment: string) => void;
  /** True from the click to the answer. */
  busy: boolean;
  error: Error | null;
  /**
   * Saves a valid rule. For an invalid one `showErrors` shows the errors. If it cannot, because the user has left the
   * editor, the request goes to the server and its refusal is shown as a notification.
   */
  save: (showErrors: () => boolean) => void;
}

/**
 * The save belongs to the page and continues on any of its tabs. While the editor is not visible, a notification shows
 * a refusal.
 */
export function useRuleSave(rule: RuleDetail | null, edit: RuleEdit, editorVisible: boolean): RuleSave {
  const { draft, validation } = edit;
  const [comment, setComment] = useState("");
  const [busy, setBusy] = useState(false);
  const navigate = useNavigate();
  const send = useApiMutation<ReturnType<typeof requestBody> & { comment: string }, RuleDetail>(
    (body) =>
      rule
        ? { path: `/rules/${rule.ruleId}`, method: "PUT", body, revision: edit.baseRevision ?? rule.revision }
        : { path: "/rules", method: "POST", body },
    {
      successMessage: ({ status, body }) =>
        status === 202
          ? "Requested: another user must approve"
          : `Rule ${body.ruleId} saved as revision ${body.revision}`,
      invalidates: [keys.approvals, keys.ruleList, ...(rule ? [keys.versions(rule.ruleId)] : [])],
      updates: rule ? keys.rule(rule.ruleId) : ({ ruleId }) => keys.rule(ruleId),
      quiet: editorVisible,
    },
  );

  const save = async (showErrors: () => boolean) => {
    if (busy) return;
    setBusy(true);
    const verdict = draft.parseError === null ? await validation.validateNow() : null;
    if (!verdict?.valid && showErrors()) {
      setBusy(false);
      return;
    }
    send.mutate(
      { ...requestBody(draft), comment },
      {
        onSuccess: ({ body: saved }) => {
          setComment("");
          if (rule === null) void navigate(`/rules/${saved.ruleId}`, { replace: true });
          else edit.reset(saved);
        },
        onSettled: () => setBusy(false),
      },
    );
  };
  return { comment, setComment, busy, error: send.error, save: (showErrors) => void save(showErrors) };
}
