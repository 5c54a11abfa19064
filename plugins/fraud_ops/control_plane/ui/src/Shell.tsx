import { Group, Loader, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useEffect, useRef } from "react";
import { NavLink, Outlet, useLocation, useMatch } from "react-router";
import { useCan, useMe } from "./api/hooks";
import { get } from "./api/http";
import { keys } from "./api/keys";
import type { Approvals, Me } from "./api/types";
import { Chip, type Tone } from "./components/Chip";
import { ErrorBoundary } from "./components/ErrorBoundary";
import { QueryResult } from "./components/QueryResult";
import { OutageBanner } from "./outage/OutageBanner";
import { useParentAddress } from "./parentAddress";
import { StreamProvider, useStream } from "./stream/StreamProvider";

/** The frame of every page: navigation, user, outage banner, and the state of the event stream. */
export function Shell() {
  const me = useMe();
  useParentAddress();
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

function NavigationBar({ me }: { me: Me }) {
  const can = useCan();
  const { data } = useQuery({
    queryKey: keys.approvals,
    queryFn: ({ signal }) => get<Approvals>("/approvals?open=true", signal),
    refetchInterval: 60_000,
  });
  const waiting = data?.items.length ?? 0;
  const countText = `${waiting}${data?.next ? "+" : ""}`;
  return (
    <header className="bar">
      <div className="bar-inside">
        <nav aria-label="Fraud rules">
          <ul>
            <NavigationLink to="/today">Today</NavigationLink>
            <NavigationLink to="/rules">Rules</NavigationLink>
            <NavigationLink to="/lists">Lists</NavigationLink>
            <NavigationLink to="/alerts">Alerts</NavigationLink>
            <NavigationLink to="/cases">Cases</NavigationLink>
            <NavigationLink to="/decisions">Decisions</NavigationLink>
            <NavigationLink to="/approvals">
              Approvals
              {waiting > 0 && (
                <span className="count" aria-label={`${countText} awaiting approval`}>
                  {countText}
                </span>
              )}
            </NavigationLink>
            <NavigationLink to="/quality">Quality</NavigationLink>
            <NavigationLink to="/notifications">Notifications</NavigationLink>
            <NavigationLink to="/detector">Detector</NavigationLink>
            <NavigationLink to="/api-docs">API</NavigationLink>
            {can("readAudit") && <NavigationLink to="/audit">Audit</NavigationLink>}
            {can("control") && <NavigationLink to="/admin">Roles & controls</NavigationLink>}
            {me.demo && <NavigationLink to="/demo">Demo</NavigationLink>}
          </ul>
        </nav>
        <Group gap="xs" wrap="nowrap">
          <StreamStatus />
          <Text size="xs" c="dimmed" visibleFrom="lg" title="Time zone of all times on these pages" className="clip">
            {Intl.DateTimeFormat().resolvedOptions().timeZone}
          </Text>
          <Text
            size="xs"
            c="dimmed"
            visibleFrom="sm"
            className="clip"
            maw="14rem"
            title={`${me.user}, ${me.role ?? ""}`}
          >
            {me.user} · {me.role}
          </Text>
        </Group>
      </div>
      <OutageBanner />
    </header>
  );
}

function NavigationLink({ to, children }: { to: string; children: React.ReactNode }) {
  const link = useRef<HTMLAnchorElement>(null);
  const isCurrent = useMatch({ path: to, end: false }) !== null;
  // The bar scrolls in a narrow window. Keep the current link visible.
  useEffect(() => {
    if (isCurrent) link.current?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [isCurrent]);
  return (
    <li>
      <NavLink ref={link} to={to}>
        {children}
      </NavLink>
    </li>
  );
}

const STREAM_STATES: Record<ReturnType<typeof useStream>["state"], [Tone, string, string]> = {
  open: [
    "quiet",
    "Live updates",
    "This page receives updates from the server. The Detector page shows whether the detector runs.",
  ],
  connecting: ["quiet", "Connecting", "Connecting to the server"],
  lost: ["warn", "Reconnecting", "Connection lost. Missed updates load after the reconnection."],
  refused: ["bad", "Logged out", "Session expired. Log in again."],
};

/** The state of the event stream. The banner shows the state of the detector. */
function StreamStatus() {
  const [tone, word, title] = STREAM_STATES[useStream().state];
  return (
    <span role="status">
      <Chip tone={tone} title={title}>
        <span className="dot" aria-hidden />
        {word}
      </Chip>
    </span>
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
      <Suspense fallback={<Loader size="sm" aria-label="Loading" />}>
        <ErrorBoundary key={pathname}>
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
        <em>viewer</em> reads, <em>analyst</em> writes drafts and shadow rules, <em>approver</em> activates rules,{" "}
        <em>admin</em> also assigns roles and sends controls.
      </p>
    </div>
  );
}
