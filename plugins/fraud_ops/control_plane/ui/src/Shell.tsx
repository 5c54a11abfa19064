import { Group, Loader, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useEffect, useRef } from "react";
import { NavLink, Outlet, useLocation, useMatch } from "react-router";
import { useCan, useMe } from "./api/hooks";
import { get } from "./api/http";
import { keys } from "./api/keys";
import type { Approvals, Me } from "./api/types";
import { LiveProvider, useLive } from "./live/LiveProvider";
import { OutageBanner } from "./live/OutageBanner";
import { Chip, type Tone } from "./parts/Chip";
import { Crash } from "./parts/Crash";
import { Shown } from "./parts/Told";

/** The frame of every page: navigation, the user, the outage banner, and whether the page is up to date. */
export function Shell() {
  const me = useMe();
  return (
    <>
      <a className="skip" href="#content">
        Skip to content
      </a>
      {me.data?.role ? (
        <LiveProvider>
          <Bar me={me.data} />
          <Content />
        </LiveProvider>
      ) : (
        <main className="page" id="content">
          <Shown of={me}>{(data) => <NoRole user={data.user} />}</Shown>
        </main>
      )}
    </>
  );
}

function Bar({ me }: { me: Me }) {
  const can = useCan();
  const { data } = useQuery({
    queryKey: keys.approvals,
    queryFn: ({ signal }) => get<Approvals>("/approvals?open=true", signal),
    refetchInterval: 60_000,
  });
  const waiting = data?.items.length ?? 0;
  const shown = `${waiting}${data?.next ? "+" : ""}`;
  return (
    <header className="bar">
      <div className="bar-inside">
        <nav aria-label="Fraud rules">
          <ul>
            <Way to="/rules">Rules</Way>
            <Way to="/alerts">Alerts</Way>
            <Way to="/approvals">
              Approvals
              {waiting > 0 && (
                <span className="count" aria-label={`${shown} awaiting approval`}>
                  {shown}
                </span>
              )}
            </Way>
            <Way to="/quality">Quality</Way>
            <Way to="/detector">Detector</Way>
            {can("readAudit") && <Way to="/audit">Audit</Way>}
            {can("control") && <Way to="/admin">Roles & controls</Way>}
            {me.demo && <Way to="/demo">Demo</Way>}
          </ul>
        </nav>
        <Group gap="xs" wrap="nowrap">
          <Updates />
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

function Way({ to, children }: { to: string; children: React.ReactNode }) {
  const link = useRef<HTMLAnchorElement>(null);
  const here = useMatch({ path: to, end: false }) !== null;
  // In a narrow window the bar scrolls: where one is, is in sight.
  useEffect(() => {
    if (here) link.current?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [here]);
  return (
    <li>
      <NavLink ref={link} to={to}>
        {children}
      </NavLink>
    </li>
  );
}

const STREAM: Record<ReturnType<typeof useLive>["state"], [Tone, string, string]> = {
  open: [
    "quiet",
    "Live updates",
    "This page receives updates from the server. The Detector page shows whether the detector runs.",
  ],
  connecting: ["quiet", "Connecting", "Connecting to the server"],
  lost: ["warn", "Reconnecting", "Connection lost. Missed updates load after the reconnection."],
  refused: ["bad", "Logged out", "Session expired. Log in again."],
};

/** Whether the page is up to date. Whether the detector works is the banner's business. */
function Updates() {
  const [tone, word, title] = STREAM[useLive().state];
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
  const first = useRef(true);
  useEffect(() => {
    // A reader by keyboard or by ear continues at the content, not at the link that led here.
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
    window.scrollTo(0, 0);
  }, [pathname]);
  return (
    <main className="page" id="content" ref={main} tabIndex={-1}>
      <Suspense fallback={<Loader size="sm" aria-label="Loading" />}>
        <Crash key={pathname}>
          <Outlet />
        </Crash>
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
