import type { MantineColorScheme, MantineColorSchemeManager } from "@mantine/core";

/** The local storage key of Airflow's theme: light, dark or system. All pages of one origin share the storage. */
export const THEME_KEY = "theme";

/** Follows the theme of Airflow's UI and its changes. Without a stored theme, follows the operating system. */
export function airflowColorScheme(): MantineColorSchemeManager {
  let stop: (() => void) | undefined;
  return {
    get: (fallback) => storedScheme() ?? fallback,
    set: () => undefined,
    subscribe: (update) => {
      const changed = (event: StorageEvent) => {
        if (event.key === THEME_KEY || event.key === null) update(storedScheme() ?? "auto");
      };
      window.addEventListener("storage", changed);
      stop = () => window.removeEventListener("storage", changed);
    },
    unsubscribe: () => stop?.(),
    clear: () => undefined,
  };
}

function storedScheme(): MantineColorScheme | undefined {
  try {
    const theme = window.localStorage.getItem(THEME_KEY);
    if (theme === "light" || theme === "dark") return theme;
    return theme === "system" ? "auto" : undefined;
  } catch {
    return undefined;
  }
}
