import { Anchor, Group } from "@mantine/core";
import { Link } from "react-router";
import { useCan } from "../api/hooks";
import { CaseLink } from "../cases/CaseLink";
import { EntityLinks } from "../entity/EntityLinks";
import type { Alert } from "./types";

/** Links from an alert: to its case, to the ids of its payment, and to a new rule that starts as a copy of its rule. */
export function AlertLinks({ alert }: { alert: Alert }) {
  const can = useCan();
  return (
    <Group gap="sm" my="xs">
      {!alert.shadow && <CaseLink alertId={alert.alertId} />}
      <EntityLinks payment={{ ...alert.key, ...alert.triggeringEvent }} />
      {can("draft") && (
        <Anchor component={Link} to={`/rules/new?from=${alert.ruleId}`} size="sm" underline="always">
          New rule from this alert
        </Anchor>
      )}
    </Group>
  );
}
