const PAGES = "/fraud/control";

/** The path of Airflow, from the address of the page: empty, or for example `/af` behind a proxy. */
export function prefixOf(pathname: string): string {
  const at = pathname.indexOf(PAGES);
  return at < 0 ? "" : pathname.slice(0, at);
}

const PREFIX = prefixOf((globalThis.location as Location | undefined)?.pathname ?? "");

/** The path of the pages on the server. */
export const BASE_PATH = PREFIX + PAGES;

/** Puts the path of Airflow before a path of the API. Whole addresses stay as they are. */
export function airflowPath(path: string): string {
  return path.startsWith("/") ? PREFIX + path : path;
}
