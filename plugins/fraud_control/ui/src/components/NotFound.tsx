import { Link, useLocation } from "react-router";
import { PageHeader, usePageTitle } from "./PageHeader";

/** The page for an unknown address. */
export function NotFound() {
  usePageTitle("Page not found");
  const { pathname } = useLocation();
  return (
    <>
      <PageHeader title="Page not found" subtitle={<span className="code">{pathname}</span>} />
      <p>
        <Link to="/today">Open Today</Link>
      </p>
    </>
  );
}
