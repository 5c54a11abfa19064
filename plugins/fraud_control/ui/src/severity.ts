export const SEVERITIES = ["critical", "high", "medium", "low"] as const;

/** The level of a severity; "none" without a known one. */
export type SeverityLevel = (typeof SEVERITIES)[number] | "none";

/** The level for a rule's free text. */
export function severityLevel(severity: unknown): SeverityLevel {
  const text = typeof severity === "string" ? severity.toLowerCase() : "";
  return SEVERITIES.find((each) => each === text) ?? "none";
}
