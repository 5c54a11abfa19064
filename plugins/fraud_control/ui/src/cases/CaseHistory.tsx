import { Button, Group, Text } from "@mantine/core";
import { useState } from "react";
import { toText } from "../api/exactJson";
import { useCan } from "../api/hooks";
import type { CaseDetail, CaseEvent, CaseOutcome, CaseStatus } from "../api/types";
import { Timestamp } from "../components/Timestamp";
import { formatCount } from "../format";
import { OUTCOMES, STATUSES } from "./caseQueue";
import { useComment } from "./useCaseChanges";
import { CaseComment } from "./CaseComment";

/** The comments on a case and its changes, newest first, and a field for the next comment. */
export function CaseHistory({ detail }: { detail: CaseDetail }) {
  const can = useCan();
  const [comment, setComment] = useState("");
  const add = useComment(detail);
  return (
    <section className="panel" aria-label="Comments and changes">
      <h2>Comments and changes</h2>
      {can("workCases") && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            add.mutate(comment.trim(), { onSuccess: () => setComment("") });
          }}
        >
          <CaseComment comment={comment} change={setComment} />
          <Group justify="flex-end" my="xs">
            <Button type="submit" variant="default" disabled={comment.trim() === ""} loading={add.isPending}>
              Add comment
            </Button>
          </Group>
        </form>
      )}
      {detail.events.length === 0 ? (
        <Text size="sm" c="dimmed">
          No comments or changes
        </Text>
      ) : (
        <ol className="plain" aria-label="History">
          {detail.events.map((event) => (
            <li key={event.eventId} className="wrap">
              <Timestamp ms={event.at} /> <strong>{event.who}</strong>{" "}
              <span className="dimmed">{actionText(event)}</span>
              {event.comment !== "" && <div style={{ whiteSpace: "pre-wrap" }}>{event.comment}</div>}
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

/** A change in words: closed as fraud. */
export function actionText({ action, detail }: Pick<CaseEvent, "action" | "detail">): string {
  const text = (name: string) => toText(detail[name]);
  switch (action) {
    case "comment":
      return "commented";
    case "assign":
      return detail["assignee"] === null ? "removed the assignee" : `assigned to ${text("assignee")}`;
    case "mark":
      return `${markText(text("verdict"))} ${formatCount(Number(text("alerts")), "alert")}`;
    case "status": {
      const outcome = OUTCOMES[text("outcome") as CaseOutcome] as string | undefined;
      if (outcome !== undefined) return `closed as ${outcome.toLowerCase()}`;
      return `set the status to ${STATUSES[text("status") as CaseStatus].toLowerCase()}`;
    }
  }
}

function markText(verdict: string): string {
  if (verdict === "FRAUD") return "marked as fraud:";
  return verdict === "NOT_FRAUD" ? "marked as not fraud:" : "removed the marks of";
}
