import { time } from "./format";

/** A time of day; the exact time, in UTC, on hover. */
export function At({ ms }: { ms: number }) {
  if (Number.isNaN(new Date(ms).getTime())) return <>–</>;
  const exact = new Date(ms).toISOString();
  return (
    <time dateTime={exact} title={exact.replace("T", " ").replace("Z", " UTC")} className="number">
      {time(ms)}
    </time>
  );
}
