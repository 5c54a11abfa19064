// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { Delivery, Subscription } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ANALYST, VIEWER } from "../testing/samples";
import NotificationsPage from "./NotificationsPage";

const TEAM: Subscription = {
  id: 4,
  name: "Team",
  receiver: "desk",
  events: ["alert", "digest"],
  severities: ["critical"],
  ruleIds: [7],
  owners: [],
  timeZone: "Europe/Berlin",
  quietFrom: "22:00",
  quietUntil: "07:00",
  digestAt: "08:00",
  author: "ann",
  createdAt: 1,
  updatedAt: 1,
};

function delivery(members: Partial<Delivery> = {}): Delivery {
  return {
    id: 9,
    subscriptionId: 4,
    receiver: "desk",
    type: "alert",
    title: "[fraud] HIGH: Rapid",
    state: "FAILED",
    attempts: 3,
    fault: "the receiver answered 500",
    createdAt: 1_700_000_000_000,
    dueAt: 1_700_000_000_000,
    endedAt: null,
    ...members,
  };
}

const server = mockServer(
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/rules/names`, () => HttpResponse.json({ items: [] })),
  http.get(`*${API}/subscriptions`, () => HttpResponse.json({ items: [TEAM] })),
  http.get(`*${API}/receivers`, () =>
    HttpResponse.json({
      items: [{ name: "desk", kind: "webhook", connection: "fraud_notify_desk", ready: false, waiting: 2, failed: 1 }],
    }),
  ),
  http.get(`*${API}/deliveries`, () =>
    HttpResponse.json({
      items: [
        delivery(),
        delivery({ id: 8, state: "WAITING" }),
        delivery({ id: 7, state: "DELIVERED", fault: null, endedAt: 1_700_000_000_000, title: "sent" }),
      ],
      next: null,
    }),
  ),
);

test("the page shows subscriptions, receivers and failed deliveries", async () => {
  renderPage(<NotificationsPage />);
  const subscriptions = within(await screen.findByRole("table", { name: "Subscriptions" }));
  expect(subscriptions.getByText("Critical; rules 7")).toBeVisible();
  expect(subscriptions.getByText("22:00 to 07:00 (Europe/Berlin)")).toBeVisible();
  expect(within(await screen.findByRole("table", { name: "Receivers" })).getByText("Missing")).toBeVisible();
  const deliveries = within(await screen.findByRole("table", { name: "Deliveries" }));
  expect(deliveries.getByText("Retrying")).toBeVisible();
  expect(deliveries.getByText(/the receiver answered 500, 3 attempts$/u)).toBeVisible();
  expect(screen.queryByRole("button", { name: "Retry delivery 7" })).toBeNull();
});

test("a failed delivery is retried, and a receiver tested", async () => {
  const sent: string[] = [];
  server.use(
    http.post(`*${API}/deliveries/9/retry`, () => {
      sent.push("retry");
      return HttpResponse.json(delivery({ state: "WAITING" }));
    }),
    http.post(`*${API}/receivers/desk/test`, () => {
      sent.push("test");
      return HttpResponse.json(delivery({ state: "WAITING" }), { status: 202 });
    }),
  );
  renderPage(<NotificationsPage />);
  await userEvent.click(await screen.findByRole("button", { name: "Retry delivery 9" }));
  await userEvent.click(await screen.findByRole("button", { name: "Send test to desk" }));
  await waitFor(() => expect(sent).toEqual(["retry", "test"]));
});

test("a subscription is edited with its terms", async () => {
  let body: unknown = null;
  server.use(
    http.put(`*${API}/subscriptions/4`, async ({ request }) => {
      body = await request.json();
      return HttpResponse.json(TEAM);
    }),
  );
  renderPage(<NotificationsPage />);
  await userEvent.click(await screen.findByRole("button", { name: "Edit Team" }));
  await userEvent.click(await screen.findByRole("checkbox", { name: "Daily digest" }));
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  const own = { id: undefined, author: undefined, createdAt: undefined, updatedAt: undefined };
  await waitFor(() => expect(body).toEqual({ ...TEAM, ...own, events: ["alert"], digestAt: "" }));
});

test("a viewer cannot change anything", async () => {
  server.use(http.get(`*${API}/me`, () => HttpResponse.json(VIEWER)));
  renderPage(<NotificationsPage />);
  await screen.findByRole("table", { name: "Deliveries" });
  for (const name of ["New subscription", "Edit Team", "Send test to desk", "Retry failed", "Retry delivery 9"])
    expect(screen.queryByRole("button", { name })).toBeNull();
});
