import { Alert, Button, Group, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../api/hooks";
import { keys } from "../api/keys";
import type { Approval, Me } from "../api/types";
import { stateName } from "../parts/Chip";
import { ago } from "../parts/format";

const DECISIONS = { APPROVED: "Approved", REJECTED: "Rejected", WITHDRAWN: "Withdrawn" };

/** Something asked for, in words. */
export function askedFor({ action, target }: Approval): string {
  if (target !== null) return `change to ${stateName(target).toLowerCase()}`;
  return action === "rollback" ? "rollback" : "edited rule";
}

/** A change that waits for a second person, where it can be decided. */
export function PendingApproval({ approval, me }: { approval: Approval; me: Me }) {
  return (
    <Alert color="yellow" variant="outline" mb="md" title={`Awaiting approval: ${askedFor(approval)}`}>
      <Text size="sm" className="wrap">
        Requested by {approval.requestedBy} {ago(approval.requestedAt)}
        {approval.comment && `: ${approval.comment}`}
      </Text>
      <Decide approval={approval} me={me} />
    </Alert>
  );
}

/** Approve or reject, or take back what one has asked for oneself; with a reason. */
export function Decide({ approval, me }: { approval: Approval; me: Me }) {
  const [comment, setComment] = useState("");
  const decide = useChange<"approve" | "reject", Approval>(
    (decision) => ({ path: `/approvals/${approval.id}/${decision}`, method: "POST", body: { comment } }),
    {
      said: ({ body }) => (body.decision === null ? null : DECISIONS[body.decision]),
      affects: [keys.approvals, keys.rules, keys.versions(approval.ruleId)],
    },
  );
  const decides = me.can.includes("decide");
  // Whoever rejects what they asked for themselves withdraws it, as the server sees it.
  const own = approval.requestedBy === me.user;
  const part = own ? "requested" : approval.author === me.user ? "wrote" : null;
  const mayApprove = decides && !(part !== null && me.fourEyes);
  const mayEnd = decides || (own && me.can.includes("request"));
  return (
    <>
      {!decides && <Text size="sm">An approver must decide.</Text>}
      {decides && !mayApprove && <Text size="sm">Another approver must decide: you {part} this change.</Text>}
      {mayEnd && (
        <Group gap="xs" mt="xs" align="flex-end">
          <TextInput
            label="Comment"
            value={comment}
            maxLength={500}
            onChange={(event) => setComment(event.currentTarget.value)}
            style={{ flex: "1 1 10rem", maxWidth: "24rem" }}
          />
          {mayApprove && (
            <Button loading={decide.isPending} onClick={() => decide.mutate("approve")}>
              Approve
            </Button>
          )}
          <Button variant="default" disabled={decide.isPending} onClick={() => decide.mutate("reject")}>
            {own ? "Withdraw" : "Reject"}
          </Button>
        </Group>
      )}
    </>
  );
}
