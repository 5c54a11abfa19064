import { Group } from "@mantine/core";
import { Choice } from "../components/Choice";
import { TypedText } from "../components/TypedText";
import { ACTION_GROUPS } from "./auditFilter";

interface Props {
  params: URLSearchParams;
  change: (name: string, value: string) => void;
}

const AGES = { "1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days", "30d": "Last 30 days" };

/** The filters of the audit log: rule, list or map, user, action and time. */
export function AuditFields({ params, change }: Props) {
  const value = (name: string) => params.get(name) ?? "";
  return (
    <Group mb="sm" gap="xs" align="center">
      <TypedText
        label="Rule ID, list or map"
        title="The ID of a rule, the name of a list, or map and the name of a map"
        value={value("about")}
        change={(text) => change("about", text)}
      />
      <TypedText
        label="User"
        title="The whole name of a user"
        value={value("user")}
        change={(text) => change("user", text)}
      />
      <Choice
        label="Action"
        none="Any action"
        names={ACTION_GROUPS}
        value={value("action")}
        change={(action) => change("action", action)}
      />
      <Choice
        label="Time"
        none="Any time"
        names={AGES}
        value={value("since")}
        change={(since) => change("since", since)}
      />
    </Group>
  );
}
