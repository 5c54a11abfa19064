// @vitest-environment jsdom
import { afterEach, expect, test, vi } from "vitest";
import { airflowColorScheme, THEME_KEY } from "./colorScheme";

afterEach(() => window.localStorage.clear());

test.each([
  ["dark", "dark"],
  ["light", "light"],
  ["system", "auto"],
])("Airflow's %s is %s here", (chosen, here) => {
  window.localStorage.setItem(THEME_KEY, chosen);
  expect(airflowColorScheme().get("auto")).toBe(here);
});

test("without a stored theme the system decides, and a later choice takes effect", () => {
  const schemes = airflowColorScheme();
  expect(schemes.get("auto")).toBe("auto");
  const update = vi.fn();
  schemes.subscribe(update);
  window.localStorage.setItem(THEME_KEY, "dark");
  window.dispatchEvent(new StorageEvent("storage", { key: THEME_KEY }));
  window.dispatchEvent(new StorageEvent("storage", { key: "another" }));
  schemes.unsubscribe();
  window.dispatchEvent(new StorageEvent("storage", { key: THEME_KEY }));
  expect(update.mock.calls).toEqual([["dark"]]);
});
