import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useMe } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Assignees, CaseDetail } from "../api/types";
import { HandOverDialog } from "./HandOverDialog";
import { useAssign } from "./useCaseChanges";

const NOBODY = "";

/**
 * The choice of the user who works on a case. It names the current assignee also if they have lost their role. Another
 * user gets the case with a note.
 */
export function AssigneeSelect({ detail }: { detail: CaseDetail }) {
  const assign = useAssign(detail);
  const me = useMe().data?.user;
  const [receiver, setReceiver] = useState<string | null>(null);
  const users = useQuery({
    queryKey: keys.assignees,
    queryFn: ({ signal }) => get<Assignees>("/cases/assignees", signal),
  });
  const current = (assign.isPending ? assign.variables.assignee : detail.assignee) ?? NOBODY;
  const names = [...new Set([...(users.data?.items ?? []), ...(current === NOBODY ? [] : [current])])].sort();
  const choose = (chosen: string | null) => {
    if (chosen === null || chosen === current) return;
    if (chosen === NOBODY || chosen === me) assign.mutate({ assignee: chosen === NOBODY ? null : chosen });
    else setReceiver(chosen);
  };
  return (
    <>
      <Select
        aria-label="Assignee"
        data={[{ value: NOBODY, label: "Unassigned" }, ...names.map((name) => ({ value: name, label: name }))]}
        value={current}
        onChange={choose}
        allowDeselect={false}
        searchable
        nothingFoundMessage={users.isError ? "The users could not be loaded" : "No matching user"}
        w="11rem"
      />
      {receiver !== null && <HandOverDialog detail={detail} receiver={receiver} close={() => setReceiver(null)} />}
    </>
  );
}
