import { Button, Checkbox, Group, Radio, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useApiMutation } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { BulkChange, Matching } from "../api/types";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { formatCount, formatNumber } from "../format";
import { CaseComment } from "./CaseComment";
import { DECISIONS, type Decision } from "./caseQueue";

interface Props {
  /** The query string of the filter for the API. */
  query: string;
  /** Closes the cases of the filter, or marks its unreviewed alerts. */
  subject: "case" | "alert";
  close: () => void;
  onChanged?: () => void;
}

/** Closes all cases, or marks all unreviewed alerts, that match a filter, and offers to undo it. */
export function BulkDialog({ query, subject, close, onChanged }: Props) {
  const [outcome, setOutcome] = useState<Decision | "">("");
  const [marks, setMarks] = useState(false);
  const [comment, setComment] = useState("");
  const isCase = subject === "case";
  const matching = useQuery({
    queryKey: [...keys.cases, "matching", subject, query],
    queryFn: ({ signal }) => get<Matching>(`/${subject}s/matching?${query}`, signal),
  });
  const change = useApiMutation<object, BulkChange>(
    (body) => ({ path: `/${isCase ? "cases/close" : "alerts/marks/matching"}?${query}`, method: "POST", body }),
    { invalidates: [keys.cases], quiet: true },
  );
  const undo = useApiMutation<number, BulkChange>((row) => ({ path: `/bulk-changes/${row}/undo`, method: "POST" }), {
    invalidates: [keys.cases],
  });
  const found = matching.data;
  const done = change.data?.body;
  const undone = undo.data?.body;
  const title = isCase ? "Close all matching cases" : "Mark all matching alerts";
  const auditRow = done?.auditRow ?? null;
  return (
    <Dialog close={close} title={title}>
      {done ? (
        <>
          <Text role="status">
            {undone
              ? `Undone: ${formatCount(undone.cases, "case")} reopened, ${formatCount(undone.marked, "mark")} removed.`
              : `${formatCount(done.cases, "case")} closed, ${formatCount(done.marked, "alert")} marked.`}
            {!undone && done.remaining > 0 && ` ${formatNumber(done.remaining)} more match: repeat the change.`}
          </Text>
          <Group justify="flex-end" mt="md">
            {auditRow !== null && !undone && (
              <Button
                variant="default"
                loading={undo.isPending}
                onClick={() => undo.mutate(auditRow, { onSuccess: () => onChanged?.() })}
              >
                Undo
              </Button>
            )}
            <Button onClick={close}>Done</Button>
          </Group>
        </>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (outcome === "") return;
            const body = isCase ? { outcome, marks: marks && outcome !== "INCONCLUSIVE" } : { verdict: outcome };
            change.mutate({ ...body, comment }, { onSuccess: () => onChanged?.() });
          }}
        >
          <Text size="sm" mb="xs" role="status">
            {found
              ? `${found.more ? "More than " : ""}${formatCount(found.count, isCase ? "open case" : "unreviewed alert")} match the filter.`
              : "Counting …"}
          </Text>
          <Radio.Group label="Outcome" required value={outcome} onChange={(value) => setOutcome(value)}>
            {Object.entries(DECISIONS)
              .filter(([value]) => isCase || value !== "INCONCLUSIVE")
              .map(([value, label]) => (
                <Radio key={value} value={value} label={label} my={6} />
              ))}
          </Radio.Group>
          {isCase && outcome !== "" && outcome !== "INCONCLUSIVE" && (
            <Checkbox
              label={`Mark their unreviewed alerts as ${DECISIONS[outcome].toLowerCase()}`}
              checked={marks}
              onChange={(event) => setMarks(event.currentTarget.checked)}
              mt="sm"
            />
          )}
          <CaseComment comment={comment} change={setComment} mt="sm" />
          {matching.error && <ErrorAlert error={matching.error} />}
          {change.error && <ErrorAlert error={change.error} />}
          <Group justify="flex-end" mt="md">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button type="submit" loading={change.isPending} disabled={outcome === "" || !found || found.count === 0}>
              {isCase
                ? `Close ${formatCount(found?.count ?? 0, "case")}`
                : `Mark ${formatCount(found?.count ?? 0, "alert")}`}
            </Button>
          </Group>
        </form>
      )}
    </Dialog>
  );
}
