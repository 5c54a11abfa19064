import { Group, Text, VisuallyHidden } from "@mantine/core";
import { IconChevronDown, IconMenu2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { type FocusEvent, type KeyboardEvent, useState } from "react";
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
import { SearchButton } from "./search/SearchButton";
import { useStream } from "./stream/StreamProvider";

/** The links to all pages, the user, the open alarms, the state of the event stream, and the outage banner. */
export function NavigationBar({ me }: { me: Me }) {
  return (
    <header className="bar">
      <div className="bar-inside">
        <Navigation groups={usePages(me)} user={`${me.user} · ${me.role ?? ""}`} />
        <Group gap="xs" wrap="nowrap">
          <SearchButton />
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

/** A group of the bar with its pages. */
type PageGroup = readonly [name: string, pages: readonly PageName[]];

/** The pages that the user may open. */
function usePages(me: Me): readonly PageGroup[] {
  const can = useCan();
  const work: PageName[] = [
    ["/today", "Today"],
    ["/alerts", "Alerts"],
    ["/cases", "Cases"],
    ["/decisions", "Decisions"],
  ];
  const rules: PageName[] = [
    ["/rules", "Rules"],
    ["/lists", "Lists"],
    ["/maps", "Maps"],
    ["/approvals", "Approvals"],
    ["/quality", "Quality"],
  ];
  const run: PageName[] = [
    ["/detector", "Detector"],
    ["/data", "Data"],
    ["/notifications", "Notifications"],
    ...(can("readAudit") ? [["/audit", "Audit"] as const] : []),
    ["/api-docs", "API"],
    ...(can("control") ? [["/admin", "Roles & controls"] as const] : []),
    ...(me.demo ? [["/demo", "Demo"] as const] : []),
  ];
  return [
    ["Work", work],
    ["Rules", rules],
    ["Run", run],
  ];
}

const MENU = "Menu";

/**
 * The links, in groups that open below their buttons. In a narrow window, a button with the name of the current page
 * shows and hides all of them.
 */
function Navigation({ groups, user }: { groups: readonly PageGroup[]; user: string }) {
  const { pathname } = useLocation();
  // Only the user closes the menu. A location may arrive long after its link was followed, when its page has loaded.
  const [open, setOpen] = useState("");
  const isCurrent = ([path]: PageName) => matchPath({ path, end: false }, pathname) !== null;
  const current = groups.flatMap(([, pages]) => pages).find(isCurrent);
  const close = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || open === "") return;
    event.currentTarget.querySelector<HTMLElement>("[aria-expanded=true]")?.focus();
    setOpen("");
  };
  const leave = (event: FocusEvent) => {
    if (!event.currentTarget.contains(event.relatedTarget)) setOpen("");
  };
  return (
    <nav aria-label="Fraud rules" onKeyDown={close} onBlur={leave}>
      <button
        type="button"
        className="menu"
        aria-expanded={open === MENU}
        aria-controls="pages"
        onClick={() => setOpen(open === MENU ? "" : MENU)}
      >
        <IconMenu2 size={16} aria-hidden />
        Menu{current && `: ${current[1]}`}
        <PendingCount />
      </button>
      <ul id="pages" data-open={open === MENU}>
        {groups.map(([name, pages]) => {
          const here = pages.find(isCurrent);
          return (
            <li
              key={name}
              className="group"
              onPointerEnter={({ pointerType }) => pointerType === "mouse" && open !== MENU && setOpen(name)}
              onPointerLeave={({ pointerType }) => pointerType === "mouse" && open !== MENU && setOpen("")}
            >
              <span className="group-name">{name}</span>
              <button
                type="button"
                aria-expanded={open === name}
                aria-controls={`pages-${name}`}
                data-current={here !== undefined}
                // The pointer of a mouse has opened the group already, so only the keyboard closes it here.
                onClick={({ detail }) => setOpen(open === name && detail === 0 ? "" : name)}
              >
                {name}
                {here && `: ${here[1]}`}
                {name === "Rules" && <PendingCount />}
                <IconChevronDown size={14} aria-hidden />
              </button>
              <ul id={`pages-${name}`} data-open={open === name}>
                {pages.map(([path, page]) => (
                  <li key={path}>
                    <NavLink to={path} onClick={() => setOpen("")}>
                      {page}
                      {path === "/approvals" && <PendingCount />}
                    </NavLink>
                  </li>
                ))}
              </ul>
            </li>
          );
        })}
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
