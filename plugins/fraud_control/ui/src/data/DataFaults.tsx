import { Text } from "@mantine/core";
import { Link } from "react-router";
import { useSchema } from "../api/hooks";
import type { DataFault } from "../api/types";
import { airflowPath } from "../basePath";
import { Chip } from "../components/Chip";
import { Timestamp } from "../components/Timestamp";
import { fieldLabel } from "../fields";

/** Verdicts about fields and rules, each with its reason, its start and its runbook. */
export function DataFaults({ faults }: { faults: readonly DataFault[] }) {
  const fields = useSchema().data?.fields ?? [];
  if (faults.length === 0) return null;
  return (
    <section className="panel" aria-label="Verdicts" style={{ borderLeft: "4px solid var(--warn)" }}>
      {faults.map((fault) => (
        <Text key={`${fault.verdict} ${fault.name ?? fault.ruleId}`} size="sm" className="wrap">
          <Chip tone="warn">{fault.verdict.replaceAll("_", " ")}</Chip>{" "}
          {fault.ruleId === null ? (
            fieldLabel(fault.name ?? "", fields)
          ) : (
            <Link to={`/rules/${fault.ruleId}`}>Rule {fault.ruleId}</Link>
          )}
          : {fault.reason}, since <Timestamp ms={fault.since} /> <a href={airflowPath(fault.runbook)}>Runbook</a>
        </Text>
      ))}
    </section>
  );
}
