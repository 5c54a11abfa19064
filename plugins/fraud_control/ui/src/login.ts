import { airflowPath } from "./basePath";

const KEY = "fraud-rules-login-ms";

/** A login that leads back without a session within this time did not help. */
const AGAIN_MS = 30_000;

/** The address of Airflow's login, which leads back to a page. */
export function loginAddress({ pathname, search }: Pick<Location, "pathname" | "search">): string {
  return airflowPath(`/auth/login?next=${encodeURIComponent(pathname + search)}`);
}

/**
 * Opens Airflow's login. Does nothing in a frame of Airflow, which asks for the login itself, and if the user just came
 * back from there: the page then shows the error instead of opening the login for ever.
 */
export function openLogin(window: Pick<Window, "parent" | "self" | "location" | "sessionStorage">): void {
  if (window.parent !== window.self) return;
  const last = Number(window.sessionStorage.getItem(KEY) ?? 0);
  if (Date.now() - last < AGAIN_MS) return;
  window.sessionStorage.setItem(KEY, String(Date.now()));
  window.location.replace(loginAddress(window.location));
}
