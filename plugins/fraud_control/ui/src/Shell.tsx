import { Suspense, useEffect, useRef } from "react";
import { Outlet, useLocation } from "react-router";
import { useMe } from "./api/hooks";
import { Problem } from "./api/http";
import { ErrorBoundary } from "./components/ErrorBoundary";
import { Loading } from "./components/Loading";
import { QueryResult } from "./components/QueryResult";
import { openLogin } from "./login";
import { NavigationBar } from "./NavigationBar";
import { useParentAddress } from "./parentAddress";
import { StreamProvider } from "./stream/StreamProvider";

/** The frame of every page: navigation, user, outage banner, and the state of the event stream. */
export function Shell() {
  const me = useMe();
  useParentAddress();
  // Only a first read opens the login: a page that is open may have unsaved changes.
  const isLoggedOut = me.data === undefined && me.error instanceof Problem && me.error.status === 401;
  useEffect(() => {
    if (isLoggedOut) openLogin(window);
  }, [isLoggedOut]);
  return (
    <>
      <a className="skip" href="#content">
        Skip to content
      </a>
      {me.data?.role ? (
        <StreamProvider>
          <NavigationBar me={me.data} />
          <Content />
        </StreamProvider>
      ) : (
        <main className="page" id="content">
          <QueryResult query={me}>{(data) => <NoRole user={data.user} />}</QueryResult>
        </main>
      )}
    </>
  );
}

function Content() {
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  const isFirstPage = useRef(true);
  useEffect(() => {
    // Moves the focus to the content for keyboard and screen reader users.
    if (!isFirstPage.current) main.current?.focus({ preventScroll: true });
    isFirstPage.current = false;
    window.scrollTo(0, 0);
  }, [pathname]);
  return (
    <main className="page" id="content" ref={main} tabIndex={-1}>
      {/* A new boundary for each page: while its module loads, the old page does not stay as if nothing happened. */}
      <Suspense key={pathname} fallback={<Loading />}>
        <ErrorBoundary>
          <Outlet />
        </ErrorBoundary>
      </Suspense>
    </main>
  );
}

function NoRole({ user }: { user: string }) {
  return (
    <div className="panel">
      <h1>No role assigned</h1>
      <p>
        You are logged in as <strong>{user}</strong>. Ask an admin of the fraud rules to assign a role to this user:{" "}
        <em>viewer</em> reads, <em>auditor</em> also reads the audit log, <em>analyst</em> writes drafts and shadow
        rules, <em>approver</em> activates rules, <em>admin</em> also assigns roles and sends controls.
      </p>
    </div>
  );
}
