import { Alert, Button, Group, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useApiMutation } from "../api/hooks";
import { keys } from "../api/keys";
import type { Approval, Me } from "../api/types";
import { stateName } from "../components/Chip";
import { formatAge, formatNumber } from "../format";
import { useNow } from "../useNow";

/** The display names of decisions. */
export const DECISIONS = { APPROVED: "Approved", REJECTED: "Rejected", WITHDRAWN: "Withdrawn" };

const COLLECTION_CHANGES: Record<string, string> = { SET: "set", ADD: "add", REMOVE: "remove" };

/** A request in words. */
export function requestText({ action, target, document }: Approval): string {
  if (action === "list" || action === "map") {
    const { count, ...members } = document as { count: number } & Record<string, string>;
    const operation = members[`${action}Operation`] ?? "";
    const [one, several] = action === "map" ? ["1 entry", "entries"] : ["1 value", "values"];
    return `${COLLECTION_CHANGES[operation] ?? operation} ${count === 1 ? one : `${formatNumber(count)} ${several}`}`;
  }
  if (target !== null) return `change to ${stateName(target).toLowerCase()}`;
  return action === "rollback" ? "rollback" : "edited rule";
}

/** A pending request, with the buttons to decide it. */
export function PendingApproval({ approval, me }: { approval: Approval; me: Me }) {
  return (
    <Alert color="yellow" variant="outline" mb="md" title={`Awaiting approval: ${requestText(approval)}`}>
      <Text size="sm" className="wrap">
        Requested by {approval.requestedBy} {formatAge(approval.requestedAt, useNow())}
        {approval.comment && `: ${approval.comment}`}
      </Text>
      <DecisionForm approval={approval} me={me} />
    </Alert>
  );
}

/** Approves or rejects a request, or withdraws one's own, with a comment. */
export function DecisionForm({ approval, me }: { approval: Approval; me: Me }) {
  const [comment, setComment] = useState("");
  const decide = useApiMutation<"approve" | "reject", Approval>(
    (decision) => ({
      path: `/approvals/${approval.id}/${decision}`,
      method: "POST",
      body: decision === "approve" ? { comment, basis: approval.basis } : { comment },
    }),
    {
      successMessage: ({ body }) => (body.decision === null ? null : DECISIONS[body.decision]),
      invalidates: [
        keys.approvals,
        ...(approval.ruleId === null ? [keys.lists, keys.maps] : [keys.rules, keys.versions(approval.ruleId)]),
      ],
    },
  );
  const canDecide = me.can.includes("decide");
  // The server records a rejection by the requester as a withdrawal.
  const isOwn = approval.requestedBy === me.user;
  const involvement = isOwn
    ? "requested this change"
    : approval.contributors.includes(me.user)
      ? "changed this rule, or a list or map that it names, since the last approval"
      : null;
  const canApprove = canDecide && !(involvement !== null && me.fourEyes);
  const canClose = canDecide || (isOwn && me.can.includes("request"));
  return (
    <>
      {!canDecide && <Text size="sm">An approver must decide.</Text>}
      {canDecide && !canApprove && <Text size="sm">Another approver must decide: you {involvement}.</Text>}
      {canClose && (
        <Group gap="xs" mt="xs" align="flex-end">
          <TextInput
            label="Comment"
            value={comment}
            maxLength={500}
            onChange={(event) => setComment(event.currentTarget.value)}
            style={{ flex: "1 1 10rem", maxWidth: "24rem" }}
          />
          {canApprove && (
            <Button loading={decide.isPending} onClick={() => decide.mutate("approve")}>
              Approve
            </Button>
          )}
          <Button variant="default" disabled={decide.isPending} onClick={() => decide.mutate("reject")}>
            {isOwn ? "Withdraw" : "Reject"}
          </Button>
        </Group>
      )}
    </>
  );
}
