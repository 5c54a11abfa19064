import { useSyncExternalStore } from "react";

const TICK_MS = 1_000;

/** One clock for all components, so that those which show the same state change in the same moment. */
let now = Date.now();
let shownAt = now;
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  if (listeners.size === 0) start();
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) stop();
  };
}

function start() {
  now = shownAt = Date.now();
  timer = setInterval(tick, TICK_MS);
  document.addEventListener("visibilitychange", noteShown);
}

function stop() {
  clearInterval(timer);
  document.removeEventListener("visibilitychange", noteShown);
}

function tick() {
  now = Date.now();
  for (const listener of listeners) listener();
}

function noteShown() {
  if (document.visibilityState !== "visible") return;
  shownAt = Date.now();
  tick();
}

/** The browser's time, each second. With a longer step, it is rounded down, and changes once in a step. */
export function useNow(stepMs = 1): number {
  return useSyncExternalStore(subscribe, () => now - (now % stepMs));
}

/** The time since which the page is visible. A hidden page reads nothing. */
export function useShownAt(): number {
  return useSyncExternalStore(subscribe, () => shownAt);
}

/** The age of a time of the server, counted in the browser: `at` is the server's time of the read, `readAt` the browser's. */
export function ageMs(time: number, at: number, readAt: number, now: number): number {
  return Math.max(0, at - time + Math.max(0, now - readAt));
}
