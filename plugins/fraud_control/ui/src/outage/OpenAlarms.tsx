import { IconBell } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Alarm, Alarms } from "../api/types";
import { formatCount } from "../format";

/** The anchor of the alarms on the page Detector. */
export const ALARMS = "alarms";

const POLL_MS = 10_000;
const MAX_NAMED = 5;

/** The number of open alarms, on every page. It links to the alarms on the page Detector. */
export function OpenAlarms() {
  const { data } = useQuery({
    queryKey: [...keys.alarms, "open"],
    queryFn: ({ signal }) => get<Alarms>("/alarms?open=true", signal),
    refetchInterval: POLL_MS,
  });
  const alarms = data?.items ?? [];
  if (alarms.length === 0) return null;
  const isCritical = alarms.some((alarm) => alarm.severity === "critical");
  return (
    <Link
      to={`/detector#${ALARMS}`}
      className="chip alarms"
      data-tone={isCritical ? "bad" : "warn"}
      title={namesText(alarms)}
      aria-label={`${formatCount(alarms.length, "open alarm")}: ${namesText(alarms)}`}
    >
      <IconBell size={14} aria-hidden />
      {formatCount(alarms.length, "alarm")}
    </Link>
  );
}

function namesText(alarms: readonly Alarm[]): string {
  const names = alarms.slice(0, MAX_NAMED).map(({ name, part }) => (part ? `${name} (${part})` : name));
  return `${names.join(", ")}${alarms.length > MAX_NAMED ? ", …" : ""}`;
}
