import type { Today } from "../api/types";
import { formatCount, formatNumber } from "../format";
import { SEVERITIES, severityLevel, type SeverityLevel } from "../severity";

const HEIGHT = 120;
const BAR = 26;
const GAP = 4;
const LABEL_HOURS = 4;
const LEVELS: readonly SeverityLevel[] = ["none", "low", "medium", "high", "critical"];
const LEVEL_NAMES: Record<SeverityLevel, string> = {
  critical: "critical",
  high: "high",
  medium: "medium",
  low: "low",
  none: "other",
};
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

type Hour = Today["hours"][number];

/** The live alerts of an hour by level. Severities without a known level count as other. */
export function countsByLevel(hour: Hour): Record<SeverityLevel, number> {
  const counts: Record<SeverityLevel, number> = { critical: 0, high: 0, medium: 0, low: 0, none: 0 };
  for (const [severity, count] of Object.entries(hour.live)) counts[severityLevel(severity)] += count;
  return counts;
}

/** A bar for each hour, stacked by severity, the most severe alerts on top. */
export function HourChart({ hours }: { hours: readonly Hour[] }) {
  const counts = hours.map(countsByLevel);
  const totals = counts.map((each) => LEVELS.reduce((sum, level) => sum + each[level], 0));
  const most = Math.max(1, ...totals);
  const width = hours.length * (BAR + GAP);
  const shown = LEVELS.filter((level) => counts.some((each) => each[level] > 0));
  return (
    <>
      {shown.length > 0 && (
        <p className="dimmed small number" style={{ margin: "0 0 0.25rem" }} aria-hidden>
          Most in one hour: {formatNumber(most)}
        </p>
      )}
      <svg
        role="img"
        aria-label={`Alerts by hour: at most ${formatNumber(Math.max(0, ...totals))}, ${formatNumber(totals.at(-1))} in the current hour`}
        viewBox={`0 0 ${width} ${HEIGHT + 1}`}
        preserveAspectRatio="none"
        width="100%"
        height={HEIGHT}
        style={{ display: "block" }}
      >
        {hours.map((hour, i) => (
          <HourBar key={hour.time} hour={hour} counts={counts[i]} x={i * (BAR + GAP)} most={most} />
        ))}
        <path d={`M0 ${HEIGHT + 0.5}H${width}`} stroke="var(--line)" />
      </svg>
      <div className="dimmed small number" style={{ display: "flex" }} aria-hidden>
        {hours
          .filter((_, i) => i % LABEL_HOURS === 0)
          .map((hour) => (
            <span key={hour.time} style={{ flex: 1 }}>
              {clock.format(hour.time)}
            </span>
          ))}
      </div>
      <p className="dimmed small" style={{ margin: "0.25rem 0 0" }}>
        {shown.length === 0
          ? "No alerts"
          : [...shown].reverse().map((level) => (
              <span key={level} style={{ marginRight: "0.75rem" }}>
                <span className="swatch" data-severity={level} aria-hidden /> {LEVEL_NAMES[level]}{" "}
                {formatNumber(counts.reduce((sum, each) => sum + each[level], 0))}
              </span>
            ))}
      </p>
    </>
  );
}

interface BarProps {
  hour: Hour;
  counts: Record<SeverityLevel, number> | undefined;
  x: number;
  most: number;
}

function HourBar({ hour, counts, x, most }: BarProps) {
  if (!counts) return null;
  const total = LEVELS.reduce((sum, level) => sum + counts[level], 0);
  const parts = LEVELS.map((level, i) => ({
    level,
    from: LEVELS.slice(0, i).reduce((sum, each) => sum + counts[each], 0),
    count: counts[level],
  })).filter(({ count }) => count > 0);
  const severe = SEVERITIES.filter((level) => counts[level] > 0).map(
    (level) => `${formatNumber(counts[level])} ${level}`,
  );
  return (
    <g>
      <title>{`${clock.format(hour.time)}: ${[formatCount(total, "alert"), ...severe].join(", ")}`}</title>
      {parts.map(({ level, from, count }) => (
        <rect
          key={level}
          className="bar-part"
          data-severity={level}
          x={x}
          y={HEIGHT - ((from + count) / most) * HEIGHT}
          width={BAR}
          height={(count / most) * HEIGHT}
        />
      ))}
    </g>
  );
}
