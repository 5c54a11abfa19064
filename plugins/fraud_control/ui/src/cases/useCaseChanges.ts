import { useApiMutation } from "../api/hooks";
import { keys } from "../api/keys";
import type { BulkMarks, CaseDetail, CaseOutcome, CaseStatus } from "../api/types";
import type { Mark } from "../alerts/types";
import { formatCount } from "../format";
import { notifySuccess } from "../notifications";

/** The new assignee of a case, null for none, and a note for them. */
interface Assignment {
  assignee: string | null;
  comment?: string;
}

/** Assigns a case to a user, or to none. With `quiet` the caller shows errors. */
export function useAssign({ caseId, revision }: CaseDetail, { quiet = false } = {}) {
  return useApiMutation<Assignment, CaseDetail>(
    (body) => ({ path: `/cases/${caseId}/assignee`, method: "PUT", revision, body }),
    { updates: keys.caseOne(caseId), invalidates: [keys.cases], quiet },
  );
}

export interface NewStatus {
  status: CaseStatus;
  outcome?: CaseOutcome;
  through?: string | undefined;
  comment?: string;
}

/** Starts, closes or reopens a case. With `quiet` the caller shows errors. */
export function useStatus({ caseId, revision }: CaseDetail, { quiet = false } = {}) {
  return useApiMutation<NewStatus, CaseDetail>(
    (body) => ({ path: `/cases/${caseId}/status`, method: "PUT", revision, body }),
    { updates: keys.caseOne(caseId), invalidates: [keys.cases], quiet },
  );
}

/** Adds a comment to a case. */
export function useComment({ caseId }: CaseDetail) {
  return useApiMutation<string, CaseDetail>(
    (comment) => ({ path: `/cases/${caseId}/comments`, method: "POST", body: { comment } }),
    { updates: keys.caseOne(caseId), invalidates: [keys.cases] },
  );
}

interface CaseMarks {
  caseId: number;
  verdict: Mark["verdict"];
  /** The newest alert that the user has seen; undefined for all alerts. */
  through?: string | undefined;
}

/** Marks the unreviewed alerts of a case, at most 1,000 with one request. */
function useMarkCase() {
  return useApiMutation<CaseMarks, BulkMarks>(
    ({ caseId, ...body }) => ({ path: `/cases/${caseId}/marks`, method: "POST", body }),
    { invalidates: [keys.cases] },
  );
}

/**
 * Marks all unreviewed alerts of a case, with as many requests as they need. It shows how many it has marked, unless it
 * is quiet.
 */
export function useMarkAll({ quiet = false } = {}) {
  const { mutate, isPending } = useMarkCase();
  const run = (marks: CaseMarks, onMarked: () => void = () => undefined, marked = 0) =>
    mutate(marks, {
      onSuccess: ({ body }) => {
        if (body.remaining > 0 && body.marked > 0) {
          run(marks, onMarked, marked + body.marked);
          return;
        }
        const verdict = marks.verdict === "FRAUD" ? "fraud" : "not fraud";
        if (!quiet) notifySuccess(`${formatCount(marked + body.marked, "alert")} marked as ${verdict}`);
        onMarked();
      },
    });
  return { run, isPending };
}

/** Marks the alerts of a selection; null removes their marks. */
export function useMarkAlerts() {
  return useApiMutation<{ alertIds: readonly string[]; verdict: Mark["verdict"] | null }, BulkMarks>(
    (body) => ({ path: "/alerts/marks", method: "POST", body }),
    { invalidates: [keys.cases] },
  );
}
