import { Group, Loader, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useEffect, useRef } from "react";
import { NavLink, Outlet, useLocation, useMatch } from "react-router";
import { useCan, useMe } from "./api/hooks";
import { get } from "./api/http";
import { keys } from "./api/keys";
import type { Approvals, Me } from "./api/types";
import { LiveProvider, useLive } from "./live/LiveProvider";
import { Chip, type Tone } from "./parts/Chip";
import { Crash } from "./parts/Crash";
import { Shown } from "./parts/Told";

/** What every page has: the way to the others, who one is, and whether what is shown is up to date. */
export function Shell() {
  const me = useMe();
  return (
    <>
      <a className="skip" href="#content">
        To the content
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
                <span className="count" aria-label={`${shown} waiting`}>
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
          <Stream />
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
  open: ["good", "Connected", "What is shown follows the detector"],
  connecting: ["quiet", "Connecting", "Connecting to the server"],
  lost: ["warn", "Reconnecting", "The connection is lost; what was missed comes with the next one"],
  refused: ["bad", "Logged out", "The server does not know you any more: log in again"],
};

function Stream() {
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
    // Whoever goes on by keyboard or hears the page begins at its content, not at the link that led here.
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
      <h1>You have no role here yet</h1>
      <p>
        You are logged in as <strong>{user}</strong>. Ask an admin of the fraud rules to bind a role to this name:{" "}
        <em>viewer</em> reads, <em>analyst</em> writes drafts and shadow rules, <em>approver</em> activates,{" "}
        <em>admin</em> also sends controls.
      </p>
    </div>
  );
}
