import { useEffect } from "react";
import { useLocation, useNavigate } from "react-router";
import { BASE_PATH } from "./basePath";

const PATH = /^#(\/[^#]*)$/u;

/**
 * The window of Airflow, if it shows the pages in a frame. Its address has the path of these pages as its fragment, so
 * that a reload, a bookmark and a link keep the rule, the alert and the filter.
 */
function airflowWindow(): Window | null {
  if (window.parent === window) return null;
  try {
    return window.parent.location.origin === window.location.origin ? window.parent : null;
  } catch {
    return null; // a frame of another site
  }
}

/** Opens the path that the address of Airflow names. Call it before the first page is rendered. */
export function openParentAddress(): void {
  const path = PATH.exec(airflowWindow()?.location.hash ?? "")?.[1];
  if (path !== undefined) window.history.replaceState(null, "", `${BASE_PATH}${path}`);
}

/** Writes the path of each page into the address of Airflow, and follows changes of that address. */
export function useParentAddress(): void {
  const { pathname, search } = useLocation();
  const navigate = useNavigate();
  useEffect(() => {
    const airflow = airflowWindow();
    if (!airflow) return;
    // Airflow's page has a base address, so a fragment alone would replace the path too.
    const address = `${airflow.location.pathname}${airflow.location.search}#${pathname}${search}`;
    airflow.history.replaceState(airflow.history.state, "", address);
  }, [pathname, search]);
  useEffect(() => {
    const airflow = airflowWindow();
    if (!airflow) return undefined;
    const follow = () => {
      const path = PATH.exec(airflow.location.hash)?.[1];
      if (path !== undefined) void navigate(path);
    };
    airflow.addEventListener("hashchange", follow);
    return () => airflow.removeEventListener("hashchange", follow);
  }, [navigate]);
}
