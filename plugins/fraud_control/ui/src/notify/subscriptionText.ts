import { SEVERITIES } from "../alerts/alertSearch";
import type { Subscription } from "../api/types";

/** The names of the events. */
export const EVENTS = {
  alert: "Alerts",
  approval: "Requests for approval",
  digest: "Daily digest",
  prediction: "My rules outside of their prediction",
  handover: "Cases handed to me",
} as const;

/** The events of a subscription: "Alerts, daily digest at 08:00 (Europe/Berlin)". */
export function eventsText({ events, digestAt, timeZone }: Subscription): string {
  return events
    .map((event) => (event === "digest" ? `${EVENTS.digest} at ${digestAt} (${timeZone})` : EVENTS[event]))
    .join(", ");
}

/** The filter of a subscription: "High, Critical; rules 1, 2; owners cards". */
export function filterText({ severities, ruleIds, owners }: Subscription): string {
  const parts = [
    severities.map((each) => SEVERITIES[each]).join(", "),
    ruleIds.length > 0 ? `rules ${ruleIds.join(", ")}` : "",
    owners.length > 0 ? `owners ${owners.join(", ")}` : "",
  ].filter((part) => part !== "");
  return parts.length === 0 ? "All" : parts.join("; ");
}

/** The quiet hours of a subscription: "22:00 to 07:00 (Europe/Berlin)". */
export function quietText({ quietFrom, quietUntil, timeZone }: Subscription): string {
  return quietFrom === "" ? "–" : `${quietFrom} to ${quietUntil} (${timeZone})`;
}
