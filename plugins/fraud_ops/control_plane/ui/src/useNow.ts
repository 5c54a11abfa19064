import { useEffect, useState } from "react";

/** The browser's time, by default each second. */
export function useNow(tickMs = 1_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), tickMs);
    return () => clearInterval(timer);
  }, [tickMs]);
  return now;
}

/** The time since which the page is visible. A hidden page reads nothing. */
export function useShownAt(): number {
  const [shownAt, setShownAt] = useState(() => Date.now());
  useEffect(() => {
    const note = () => {
      if (document.visibilityState === "visible") setShownAt(Date.now());
    };
    document.addEventListener("visibilitychange", note);
    return () => document.removeEventListener("visibilitychange", note);
  }, []);
  return shownAt;
}

/** The age of a time of the server, counted in the browser: `at` is the server's time of the read, `readAt` the browser's. */
export function ageMs(time: number, at: number, readAt: number, now: number): number {
  return Math.max(0, at - time + Math.max(0, now - readAt));
}
