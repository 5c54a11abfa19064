import { useEffect, useState } from "react";

const TICK_MS = 1_000;

/** The browser's time, each second. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** The age of a time of the server, counted in the browser: `at` is the server's time of the read, `readAt` the browser's. */
export function ageMs(time: number, at: number, readAt: number, now: number): number {
  return Math.max(0, at - time + Math.max(0, now - readAt));
}
