import { formatTime } from "../format";

/** A local time of day. The tooltip shows the exact time in UTC. */
export function Timestamp({ ms }: { ms: number }) {
  if (Number.isNaN(new Date(ms).getTime())) return <>–</>;
  const exact = new Date(ms).toISOString();
  return (
    <time dateTime={exact} title={exact.replace("T", " ").replace("Z", " UTC")} className="number">
      {formatTime(ms)}
    </time>
  );
}
