import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Assignees, CaseDetail } from "../api/types";
import { useAssign } from "./useCaseChanges";

const NOBODY = "";

/** The choice of the user who works on a case. It names the current assignee also if they have lost their role. */
export function AssigneeSelect({ detail }: { detail: CaseDetail }) {
  const assign = useAssign(detail);
  const users = useQuery({
    queryKey: keys.assignees,
    queryFn: ({ signal }) => get<Assignees>("/cases/assignees", signal),
  });
  const current = (assign.isPending ? assign.variables : detail.assignee) ?? NOBODY;
  const names = [...new Set([...(users.data?.items ?? []), ...(current === NOBODY ? [] : [current])])].sort();
  return (
    <Select
      aria-label="Assignee"
      data={[{ value: NOBODY, label: "Unassigned" }, ...names.map((name) => ({ value: name, label: name }))]}
      value={current}
      onChange={(chosen) => chosen !== null && chosen !== current && assign.mutate(chosen === NOBODY ? null : chosen)}
      allowDeselect={false}
      searchable
      nothingFoundMessage={users.isError ? "The users could not be loaded" : "No matching user"}
      w="11rem"
    />
  );
}
