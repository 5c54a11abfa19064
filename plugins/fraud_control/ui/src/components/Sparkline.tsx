import { formatNumber } from "../format";

const WIDTH = 120;
const HEIGHT = 22;

/** A bar per minute, oldest first, with the sum beside it. */
export function Sparkline({ counts, label }: { counts: readonly number[]; label: string }) {
  const sum = counts.reduce((all, each) => all + each, 0);
  const most = Math.max(1, ...counts);
  const step = WIDTH / Math.max(1, counts.length);
  const path = counts
    .map((count, i) => {
      if (count === 0) return "";
      const height = Math.max(2, (count / most) * (HEIGHT - 2));
      return `M${(i * step).toFixed(1)} ${HEIGHT}v${(-height).toFixed(1)}h${(step * 0.8).toFixed(1)}v${height.toFixed(1)}z`;
    })
    .join("");
  return (
    <span style={{ display: "inline-flex", alignItems: "center", gap: "0.5rem" }}>
      <svg
        role="img"
        aria-label={`${label}: ${sum}, at most ${Math.max(0, ...counts)} per minute`}
        width={WIDTH}
        height={HEIGHT}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      >
        <path d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} stroke="var(--line)" />
        <path d={path} fill="var(--mark)" />
      </svg>
      <span className="number" aria-hidden style={{ minWidth: "2.5em", textAlign: "right" }}>
        {formatNumber(sum)}
      </span>
    </span>
  );
}
