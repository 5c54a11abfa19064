import type { Mark } from "../alerts/types";
import type { Shortcut } from "../components/shortcuts";

/** The keys f and n, which mark the subject as fraud or not fraud. */
export function markShortcuts(subject: string, mark: (verdict: Mark["verdict"]) => void): Shortcut[] {
  return [
    { key: "f", name: `Mark ${subject} as fraud`, run: () => mark("FRAUD") },
    { key: "n", name: `Mark ${subject} as not fraud`, run: () => mark("NOT_FRAUD") },
  ];
}
