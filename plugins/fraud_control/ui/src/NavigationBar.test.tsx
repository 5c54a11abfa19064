// @vitest-environment jsdom
import { act, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { useEffect } from "react";
import { useNavigate } from "react-router";
import { expect, test } from "vitest";
import { API } from "./api/http";
import { keys } from "./api/keys";
import { NavigationBar } from "./NavigationBar";
import { StreamProvider } from "./stream/StreamProvider";
import { mockServer } from "./testing/mockServer";
import { newClient, renderPage } from "./testing/renderPage";
import { ANALYST, liveness } from "./testing/samples";

const server = mockServer(
  http.get(`*${API}/alarms`, ({ request }) =>
    HttpResponse.json({ items: new URL(request.url).searchParams.has("open") ? ALARMS : [], alarmReceivers: [] }),
  ),
  http.get(`*${API}/approvals`, () => HttpResponse.json({ items: [], next: null })),
  http.get(`*${API}/liveness`, () => HttpResponse.json(liveness({ severity: "NONE" }))),
);

const alarm = {
  id: 1,
  name: "ALERT_FLOOD",
  severity: "warning",
  part: "rule 1001",
  said: "",
  source: "",
  runbook: "/",
  receivers: [],
  first: 1,
  last: 2,
  count: 1,
  cleared: null,
  old: false,
};
const ALARMS = [alarm, { ...alarm, id: 2, name: "BLIND", severity: "critical", part: "" }];

test("the bar shows the open alarms and links to them", async () => {
  const client = newClient();
  client.setQueryData(keys.me, ANALYST);
  renderPage(<NavigationBar me={ANALYST} />, { client });
  const link = await screen.findByRole("link", { name: "2 open alarms: ALERT_FLOOD (rule 1001), BLIND" });
  expect(link).toHaveTextContent("2 alarms");
  expect(link).toHaveAttribute("href", "/detector#alarms");
  expect(link).toHaveAttribute("data-tone", "bad");
});

test("an open stream does not say Live updates while Kafka is down", async () => {
  const client = newClient();
  client.setQueryData(keys.me, ANALYST);
  const body = new ReadableStream<Uint8Array>({ start: () => undefined });
  server.use(
    http.get(`*${API}/alerts/stream`, () => new HttpResponse(body)),
    http.get(`*${API}/liveness`, () =>
      HttpResponse.json(liveness({ verdict: { ...liveness().verdict, name: "BROKER_DOWN" } })),
    ),
  );
  renderPage(
    <StreamProvider>
      <NavigationBar me={ANALYST} />
    </StreamProvider>,
    { client },
  );
  expect(await screen.findByText("Kafka down")).toBeVisible();
  expect(screen.queryByText("Live updates")).toBeNull();
});

test("the bar and its menu show the time zone of the times", () => {
  const client = newClient();
  client.setQueryData(keys.me, ANALYST);
  renderPage(<NavigationBar me={ANALYST} />, { client });
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  expect(screen.getByTitle("Time zone of all times on these pages")).toHaveTextContent(timeZone);
  expect(screen.getByText(`Times in ${timeZone} · ann · analyst`)).toBeInTheDocument();
});

test("the pages are in three groups, which open by keyboard and close with Escape", async () => {
  const client = newClient();
  client.setQueryData(keys.me, ANALYST);
  renderPage(<NavigationBar me={ANALYST} />, { client, at: "/cases/5" });
  const bar = within(screen.getByRole("navigation", { name: "Fraud rules" }));
  const buttons = bar.getAllByRole("button").map((each) => each.textContent);
  expect(buttons).toEqual(["Menu: Cases", "Work: Cases", "Rules", "Run"]);
  const group = bar.getByRole("button", { name: "Work: Cases" });
  expect(group).toHaveAttribute("aria-expanded", "false");
  group.focus();
  await userEvent.keyboard("{Enter}");
  expect(group).toHaveAttribute("aria-expanded", "true");
  expect(bar.getByRole("link", { name: "Cases" })).toHaveAttribute("aria-current", "page");
  await userEvent.tab();
  expect(bar.getByRole("link", { name: "Today" })).toHaveFocus();
  await userEvent.keyboard("{Escape}");
  expect(group).toHaveAttribute("aria-expanded", "false");
  expect(group).toHaveFocus();
});

test("a location that arrives late leaves the menu open, and a link of the menu closes it", async () => {
  const client = newClient();
  client.setQueryData(keys.me, ANALYST);
  renderPage(
    <>
      <NavigationBar me={ANALYST} />
      <LateRedirect />
    </>,
    { client },
  );
  const bar = within(screen.getByRole("navigation", { name: "Fraud rules" }));
  const user = userEvent.setup();
  await user.hover(bar.getByRole("button", { name: "Rules" }));
  await act(() => arrive());
  const group = bar.getByRole("button", { name: "Rules: Quality" });
  expect(group).toHaveAttribute("aria-expanded", "true");
  await user.click(bar.getByRole("link", { name: "Approvals" }));
  expect(bar.getByRole("button", { name: "Rules: Approvals" })).toHaveAttribute("aria-expanded", "false");
});

let arrive: () => void | Promise<void> = () => undefined;

function LateRedirect() {
  const navigate = useNavigate();
  useEffect(() => {
    arrive = () => navigate("/quality");
  }, [navigate]);
  return null;
}
