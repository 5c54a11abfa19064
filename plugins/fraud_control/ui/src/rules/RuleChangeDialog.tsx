import { Button, type ButtonProps, Group, type ModalProps } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useApiMutation } from "../api/hooks";
import type { CallOptions } from "../api/http";
import { keys } from "../api/keys";
import type { RuleDetail } from "../api/types";
import { CommentInput } from "../components/CommentInput";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";

interface Props extends Pick<ModalProps, "size" | "title"> {
  rule: RuleDetail;
  needsApproval: boolean;
  /** The label of the button that makes or requests the change. */
  label: string;
  color?: ButtonProps["color"];
  /** The request that changes the rule, without its revision. */
  request: (rule: RuleDetail, comment: string) => { path: string } & CallOptions;
  /** The message about a change that took effect. `base` is the rule before it. */
  successMessage: (body: RuleDetail, base: RuleDetail) => string;
  /** Called after a change that took effect, with the rule before it. */
  onChanged?: (base: RuleDetail) => void;
  close: () => void;
  /** The effects of the change. */
  children: ReactNode;
}

/** A dialog that changes a rule, or requests the change, with a comment. */
export function RuleChangeDialog(props: Props) {
  const { rule, needsApproval, label, color, request, successMessage, onChanged, close, children, ...modal } = props;
  const [comment, setComment] = useState("");
  // The user has seen this revision. A newer one makes the request fail, so that no unseen change takes effect.
  const [base] = useState(rule);
  const save = useApiMutation<string, RuleDetail>((text) => ({ ...request(base, text), revision: base.revision }), {
    successMessage: ({ status, body }) =>
      status === 202 ? "Requested: another user must approve" : successMessage(body, base),
    invalidates: [keys.approvals, keys.versions(base.ruleId), keys.ruleList],
    updates: keys.rule(base.ruleId),
    quiet: true,
  });
  return (
    <Dialog close={close} {...modal}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(comment, {
            onSuccess: ({ status }) => {
              if (status !== 202) onChanged?.(base);
              close();
            },
          });
        }}
      >
        {children}
        <CommentInput comment={comment} change={setComment} asksApproval={needsApproval} data-autofocus mt="sm" />
        {save.error && <ErrorAlert error={save.error} />}
        <Group justify="flex-end" mt="md" gap="xs">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" loading={save.isPending} {...(color ? { color } : {})}>
            {label}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
