import { severityLevel } from "../severity";

/** The severity of a rule, coloured by its level. Rules may have other severities, which stay grey. */
export function SeverityChip({ severity }: { severity: string | null | undefined }) {
  if (!severity) return null;
  return (
    <span className="chip severity" data-severity={severityLevel(severity)}>
      {severity}
    </span>
  );
}
