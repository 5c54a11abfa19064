import { formatDateTime, formatTime } from "../format";

/** A local time of day, with the date for another day or `withDate`. The tooltip shows the exact time in UTC. */
export function Timestamp({ ms, withDate = false }: { ms: number; withDate?: boolean }) {
  if (Number.isNaN(new Date(ms).getTime())) return <>–</>;
  const exact = new Date(ms).toISOString();
  return (
    <time dateTime={exact} title={exact.replace("T", " ").replace("Z", " UTC")} className="number">
      {withDate ? formatDateTime(ms) : formatTime(ms)}
    </time>
  );
}
