import { Group, Text, VisuallyHidden } from "@mantine/core";
import { IconMenu2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { type FocusEvent, type KeyboardEvent, useRef, useState } from "react";
import { matchPath, NavLink, useLocation } from "react-router";
import { useCan } from "./api/hooks";
import { get } from "./api/http";
import { keys } from "./api/keys";
import type { Approvals, Me } from "./api/types";
import { Chip, type Tone } from "./components/Chip";
import { formatNumber } from "./format";
import { OpenAlarms } from "./outage/OpenAlarms";
import { OutageBanner } from "./outage/OutageBanner";
import { useLiveness, useSilence } from "./outage/useLiveness";
import { useStream } from "./stream/StreamProvider";

/** The links to all pages, the user, the open alarms, the state of the event stream, and the outage banner. */
export function NavigationBar({ me }: { me: Me }) {
  return (
    <header className="bar">
      <div className="bar-inside">
        <Navigation pages={usePages(me)} user={`${me.user} · ${me.role ?? ""}`} />
        <Group gap="xs" wrap="nowrap">
          <OpenAlarms />
          <StreamStatus />
          <Text size="xs" c="dimmed" visibleFrom="lg" title="Time zone of all times on these pages" className="clip">
            {TIME_ZONE}
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

const TIME_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

type PageName = readonly [path: string, name: string];

/** The pages that the user may open. */
function usePages(me: Me): PageName[] {
  const can = useCan();
  return [
    ["/today", "Today"],
    ["/rules", "Rules"],
    ["/lists", "Lists"],
    ["/maps", "Maps"],
    ["/alerts", "Alerts"],
    ["/cases", "Cases"],
    ["/decisions", "Decisions"],
    ["/approvals", "Approvals"],
    ["/quality", "Quality"],
    ["/notifications", "Notifications"],
    ["/data", "Data"],
    ["/detector", "Detector"],
    ["/api-docs", "API"],
    ...(can("readAudit") ? [["/audit", "Audit"] as const] : []),
    ...(can("control") ? [["/admin", "Roles & controls"] as const] : []),
    ...(me.demo ? [["/demo", "Demo"] as const] : []),
  ];
}

/** The links. In a narrow window, a button with the name of the current page shows and hides them. */
function Navigation({ pages, user }: { pages: readonly PageName[]; user: string }) {
  const { pathname, key } = useLocation();
  const [openAt, setOpenAt] = useState<string | null>(null);
  const button = useRef<HTMLButtonElement>(null);
  const isOpen = openAt === key; // a new location closes the menu
  const current = pages.find(([path]) => matchPath({ path, end: false }, pathname));
  const close = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !isOpen) return;
    setOpenAt(null);
    button.current?.focus();
  };
  const leave = (event: FocusEvent) => {
    if (!event.currentTarget.contains(event.relatedTarget)) setOpenAt(null);
  };
  return (
    <nav aria-label="Fraud rules" onKeyDown={close} onBlur={leave}>
      <button
        type="button"
        ref={button}
        aria-expanded={isOpen}
        aria-controls="pages"
        onClick={() => setOpenAt(isOpen ? null : key)}
      >
        <IconMenu2 size={16} aria-hidden />
        Menu{current && `: ${current[1]}`}
        <PendingCount />
      </button>
      <ul id="pages" data-open={isOpen}>
        {pages.map(([path, name]) => (
          <li key={path}>
            <NavLink to={path} onClick={() => setOpenAt(null)}>
              {name}
              {path === "/approvals" && <PendingCount />}
            </NavLink>
          </li>
        ))}
        <li className="session dimmed small">
          Times in {TIME_ZONE} · {user}
        </li>
      </ul>
    </nav>
  );
}

/** The number of requests that await approval. */
function PendingCount() {
  const { data } = useQuery({
    queryKey: keys.approvals,
    queryFn: ({ signal }) => get<Approvals>("/approvals?open=true", signal),
    refetchInterval: 60_000,
  });
  const waiting = data?.items.length ?? 0;
  if (waiting === 0) return null;
  const text = `${formatNumber(waiting)}${data?.next ? "+" : ""}`;
  return (
    <span className="count">
      {text}
      <VisuallyHidden> awaiting approval</VisuallyHidden>
    </span>
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

const NO_ANSWER = ["warn", "No answer", "The server does not answer"] as const;
const KAFKA_DOWN = ["warn", "Kafka down", "Kafka does not answer, so no updates arrive"] as const;

/** An open stream brings no updates while the server or Kafka does not answer. */
function useStreamState(): readonly [Tone, string, string] {
  const { state } = useStream();
  const silence = useSilence();
  const liveness = useLiveness();
  if (state === "open" && silence) return NO_ANSWER;
  if (state === "open" && liveness?.verdict.name === "BROKER_DOWN") return KAFKA_DOWN;
  return STREAM_STATES[state];
}

/** The state of the event stream. The banner shows the state of the detector. */
function StreamStatus() {
  const [tone, word, title] = useStreamState();
  return (
    <span role="status">
      <Chip tone={tone} title={title}>
        <span className="dot" aria-hidden />
        {word}
      </Chip>
    </span>
  );
}
