import { Button, Checkbox, Group, Radio } from "@mantine/core";
import { useState } from "react";
import type { CaseDetail } from "../api/types";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { formatCount } from "../format";
import { notifySuccess } from "../notifications";
import { DECISIONS, type Decision } from "./caseQueue";
import { useMarkAll, useStatus } from "./useCaseChanges";
import { CaseComment } from "./CaseComment";

interface Props {
  detail: CaseDetail;
  /** The position of the newest alert that the user has seen. Later ones open the next case. */
  through: string | undefined;
  close: () => void;
}

/** Closes a case with an outcome, and marks its unreviewed alerts in the same way. */
export function CloseDialog({ detail, through, close }: Props) {
  const [outcome, setOutcome] = useState<Decision | "">("");
  const [marks, setMarks] = useState(false);
  const [comment, setComment] = useState("");
  const setStatus = useStatus(detail, { quiet: true });
  const markAll = useMarkAll({ quiet: true });
  const verdict = outcome === "INCONCLUSIVE" || outcome === "" ? null : outcome;
  const save = () => {
    if (outcome === "") return;
    setStatus.mutate(
      { status: "CLOSED", outcome, through, comment },
      {
        onSuccess: () => {
          notifySuccess(`Case ${detail.caseId} closed`);
          close();
        },
      },
    );
  };
  const markAndSave = () => {
    if (verdict === null || !marks || detail.unreviewed === 0) {
      save();
      return;
    }
    markAll.run({ caseId: detail.caseId, verdict, through }, save);
  };
  return (
    <Dialog close={close} title={`Close case ${detail.caseId}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          markAndSave();
        }}
      >
        <Radio.Group label="Outcome" required value={outcome} onChange={(value) => setOutcome(value)}>
          {Object.entries(DECISIONS).map(([value, label]) => (
            <Radio key={value} value={value} label={label} my={6} data-autofocus={value === "FRAUD" || undefined} />
          ))}
        </Radio.Group>
        {verdict !== null && detail.unreviewed > 0 && (
          <Checkbox
            label={`Mark the ${formatCount(detail.unreviewed, "unreviewed alert")} as ${DECISIONS[verdict].toLowerCase()}`}
            checked={marks}
            onChange={(event) => setMarks(event.currentTarget.checked)}
            mt="sm"
          />
        )}
        <CaseComment comment={comment} change={setComment} mt="sm" />
        {setStatus.error && <ErrorAlert error={setStatus.error} />}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" disabled={outcome === ""} loading={setStatus.isPending || markAll.isPending}>
            Close case
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
