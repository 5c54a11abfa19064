import type { MantineColorScheme, MantineColorSchemeManager } from "@mantine/core";

/** Where Airflow's UI keeps its choice of light, dark or system; pages of one origin share it. */
export const THEME_KEY = "theme";

/** Follows the theme of Airflow's UI, also while it changes; without a choice there, the system's. */
export function airflowColorScheme(): MantineColorSchemeManager {
  let stop: (() => void) | undefined;
  return {
    get: (fallback) => chosen() ?? fallback,
    set: () => undefined,
    subscribe: (update) => {
      const changed = (event: StorageEvent) => {
        if (event.key === THEME_KEY || event.key === null) update(chosen() ?? "auto");
      };
      window.addEventListener("storage", changed);
      stop = () => window.removeEventListener("storage", changed);
    },
    unsubscribe: () => stop?.(),
    clear: () => undefined,
  };
}

function chosen(): MantineColorScheme | undefined {
  try {
    const theme = window.localStorage.getItem(THEME_KEY);
    if (theme === "light" || theme === "dark") return theme;
    return theme === "system" ? "auto" : undefined;
  } catch {
    return undefined;
  }
}
