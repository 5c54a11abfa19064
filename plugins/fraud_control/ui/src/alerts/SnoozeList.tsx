import { Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useApiMutation, useCan, useSchema } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Snoozes } from "../api/types";
import { Timestamp } from "../components/Timestamp";
import { formatKey } from "../format";

/** The active snoozes. `onEnd` is called after the user ends one. */
export function SnoozeList({ onEnd }: { onEnd: () => void }) {
  const can = useCan();
  const fields = useSchema().data?.fields;
  const { data } = useQuery({
    queryKey: keys.snoozes,
    queryFn: ({ signal }) => get<Snoozes>("/snoozes", signal),
    refetchInterval: 60_000,
  });
  const end = useApiMutation<number>((id) => ({ path: `/snoozes/${id}`, method: "DELETE" }), {
    invalidates: [keys.snoozes],
  });
  if (!data || data.items.length === 0) return null;
  return (
    <details className="panel" style={{ marginBottom: "0.75rem", padding: "0.5rem 0.75rem" }}>
      <summary>{data.items.length === 1 ? "1 active snooze" : `${data.items.length} active snoozes`}</summary>
      <ul style={{ margin: "0.5rem 0 0", paddingLeft: "1.1rem" }}>
        {data.items.map((snooze) => (
          <li key={snooze.id} className="wrap">
            Rule {snooze.ruleId}, {formatKey(snooze.key, fields)}, until <Timestamp ms={snooze.until} /> ({snooze.who}
            {snooze.reason && `: ${snooze.reason}`}){" "}
            {can("snooze") && (
              <Anchor
                component="button"
                type="button"
                size="sm"
                onClick={() => end.mutate(snooze.id, { onSuccess: onEnd })}
              >
                End snooze
              </Anchor>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}
