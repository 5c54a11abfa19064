import { useApiMutation } from "../api/hooks";
import { keys } from "../api/keys";
import type { BulkMarks, CaseDetail, CaseOutcome, CaseStatus } from "../api/types";
import type { Mark } from "../alerts/types";

/** Assigns a case to a user, or to none. */
export function useAssign({ caseId, revision }: CaseDetail) {
  return useApiMutation<string | null, CaseDetail>(
    (assignee) => ({ path: `/cases/${caseId}/assignee`, method: "PUT", revision, body: { assignee } }),
    { updates: keys.caseOne(caseId), invalidates: [keys.cases] },
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

/** Marks the unreviewed alerts of a case, up to the newest alert that the user has seen. */
export function useMarkCase({ caseId }: CaseDetail) {
  return useApiMutation<{ verdict: Mark["verdict"]; through: string | undefined }, BulkMarks>(
    (body) => ({ path: `/cases/${caseId}/marks`, method: "POST", body }),
    { invalidates: [keys.cases] },
  );
}

/** Marks the alerts of a selection; null removes their marks. */
export function useMarkAlerts() {
  return useApiMutation<{ alertIds: readonly string[]; verdict: Mark["verdict"] | null }, BulkMarks>(
    (body) => ({ path: "/alerts/marks", method: "POST", body }),
    { invalidates: [keys.cases] },
  );
}
