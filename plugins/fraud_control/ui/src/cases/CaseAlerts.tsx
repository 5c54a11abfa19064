import { Button, Group } from "@mantine/core";
import { useState } from "react";
import { AlertItems } from "../alerts/AlertItems";
import type { Mark } from "../alerts/types";
import type { AlertListView } from "../alerts/useAlerts";
import { useCan } from "../api/hooks";
import type { CaseDetail } from "../api/types";
import { formatCount, formatNumber } from "../format";
import { SelectionMarks } from "./SelectionMarks";
import { useMarkAll } from "./useCaseChanges";

/** The alerts of a case, with the marks of all of them or of a selection. */
export function CaseAlerts({ detail, view }: { detail: CaseDetail; view: AlertListView }) {
  const can = useCan();
  const [open, setOpen] = useState<string | null>(null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [seen, setSeen] = useState(detail.alerts);
  const added = detail.alerts - seen;
  const marks = can("mark");
  return (
    <section className="panel" aria-label="Alerts of the case">
      <h2>Alerts</h2>
      <Group gap="xs" mb="sm">
        {marks && <AllMarks detail={detail} view={view} />}
        {added > 0 && (
          <Button
            variant="light"
            onClick={() => {
              setSeen(detail.alerts);
              view.reload();
            }}
          >
            Show {formatCount(added, "new alert")}
          </Button>
        )}
      </Group>
      {marks && <SelectionMarks selected={selected} setSelected={setSelected} onMarked={view.reload} />}
      <AlertItems
        view={view}
        open={open}
        setOpen={setOpen}
        onSnoozed={view.reload}
        {...(marks ? { selected, setSelected } : {})}
      />
      {view.continuation.next !== null && (
        <Button variant="default" mt="sm" loading={view.loadingOlder} onClick={view.loadOlder}>
          Load older alerts
        </Button>
      )}
    </section>
  );
}

/** Buttons that mark all unreviewed alerts of the case. Alerts that arrive after the newest one shown stay unreviewed. */
function AllMarks({ detail, view }: { detail: CaseDetail; view: AlertListView }) {
  const markAll = useMarkAll();
  const mark = (verdict: Mark["verdict"]) =>
    markAll.run({ caseId: detail.caseId, verdict, through: view.alerts[0]?.position }, view.reload);
  if (detail.unreviewed === 0) return null;
  const all = `Mark ${formatNumber(detail.unreviewed)} unreviewed as`;
  return (
    <>
      <Button variant="default" loading={markAll.isPending} onClick={() => mark("FRAUD")}>
        {all} fraud
      </Button>
      <Button variant="default" loading={markAll.isPending} onClick={() => mark("NOT_FRAUD")}>
        {all} not fraud
      </Button>
    </>
  );
}
