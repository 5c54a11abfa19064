import { Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { Cases } from "../api/types";
import { casePath, statusOf } from "./caseQueue";

/** A link to the case of an alert, if the alert belongs to one. */
export function CaseLink({ alertId }: { alertId: string }) {
  const { data } = useQuery({
    queryKey: keys.caseOfAlert(alertId),
    queryFn: ({ signal }) => get<Cases>(`/cases${queryString({ alertId })}`, signal),
  });
  const found = data?.items[0];
  if (!found) return null;
  return (
    <Anchor component={Link} to={casePath(found.caseId)} size="sm" underline="always">
      Case {found.caseId} ({statusOf(found)[1].toLowerCase()})
    </Anchor>
  );
}
