// @vitest-environment jsdom
import { afterEach, expect, test, vi } from "vitest";
import { openLogin } from "./login";

afterEach(() => {
  window.sessionStorage.clear();
  vi.useRealTimers();
});

function opened(frame = false) {
  const replace = vi.fn();
  const location = { pathname: "/fraud/control/alerts", search: "?shadow=true", replace } as unknown as Location;
  const self = window;
  openLogin({ self, parent: frame ? ({} as Window) : self, location, sessionStorage: window.sessionStorage });
  return replace;
}

test("the login leads back to the page and its filter", () => {
  expect(opened()).toHaveBeenCalledWith("/auth/login?next=%2Ffraud%2Fcontrol%2Falerts%3Fshadow%3Dtrue");
});

test("a login that did not help is not opened again at once", () => {
  vi.useFakeTimers();
  opened();
  expect(opened()).not.toHaveBeenCalled();
  vi.advanceTimersByTime(30_000);
  expect(opened()).toHaveBeenCalled();
});

test("a frame of Airflow opens no login", () => {
  expect(opened(true)).not.toHaveBeenCalled();
});
