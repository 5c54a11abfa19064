// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ANALYST, approval, rule } from "../testing/samples";
import ApprovalsPage from "./ApprovalsPage";

const server = mockServer(
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/rules`, () => HttpResponse.json({ items: [rule()], next: null })),
  http.get(`*${API}/approvals`, ({ request }) => {
    const parameters = new URL(request.url).searchParams;
    if (parameters.get("open") === "false") return HttpResponse.json({ items: [approval(1)], next: null });
    if (parameters.has("before")) return HttpResponse.json({ items: [approval(2)], next: null });
    return HttpResponse.json({ items: [approval(4), approval(3)], next: "3" });
  }),
  http.get(`*${API}/approvals/:id/figures`, () =>
    HttpResponse.json({
      shadow: { since: SINCE, until: SINCE + 4 * 86_400_000, alerts: 30, fraud: 3, notFraud: 5, byRequester: 6 },
      present: { since: SINCE, until: SINCE + 86_400_000, alerts: 528, alertsPerDay: 528 },
      running: isRunning,
      whatIf: hasWhatIf
        ? {
            at: SINCE,
            report: "/fraud/reports/whatif/1/report.html",
            days: ["2026-01-01", "2026-01-02"],
            transactions: 9,
            fires: 11,
            alertsPerDay: 11,
            coverage: { days: 2, daysWithData: 1, coveredMs: 86_400_000, thin: false },
            suppressed: 0,
            keys: 2,
            labels: LABELS,
          }
        : null,
    }),
  ),
);

const LABELS = { fraud: 16, notFraud: 40, outside: 0, skipped: {}, caught: 14, falseAlerts: 3, suppressed: 0 };
const SINCE = Date.UTC(2026, 0, 1);
let hasWhatIf = true;
let isRunning = false;

const listed = () => screen.getAllByRole("article").length;

test("pending requests are listed page by page", async () => {
  renderPage(<ApprovalsPage />);
  await waitFor(() => expect(listed()).toBe(2));
  expect(screen.queryByText("No differences"), "a transition does not change the document").toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Load older requests" }));
  await waitFor(() => expect(listed()).toBe(3));
  expect(screen.queryByRole("button", { name: "Load older requests" })).toBeNull();
});

test("decided requests are a separate list", async () => {
  renderPage(<ApprovalsPage />);
  await waitFor(() => expect(listed()).toBe(2));
  await userEvent.click(screen.getByRole("switch", { name: "Show decided" }));
  await waitFor(() => expect(listed()).toBe(1));
});

test("an approver sees shadow alerts, labels and expected alerts per day", async () => {
  renderPage(<ApprovalsPage />);
  const figures = await screen.findByRole("region", { name: "Figures of request 4" });
  const fact = async (name: string) => (await within(figures).findByText(name)).nextElementSibling;
  expect(await fact("Shadow alerts")).toHaveTextContent("30 since");
  expect(await fact("Shadow alerts per day")).toHaveTextContent("7.5");
  expect(await fact("Marked shadow alerts")).toHaveTextContent("3 fraud, 5 not fraud6 of 8 marks by the requester");
  expect(await fact("Alerts per day now")).toHaveTextContent("528");
  expect(await fact("Expected alerts per day")).toHaveTextContent("11");
  expect(await fact("Days with data")).toHaveTextContent(/^1 of 2$/u);
  expect(await fact("What-if")).toHaveTextContent("11 alerts in 2 days to 2026-01-02");
  expect(await fact("Confirmed frauds caught")).toHaveTextContent("14 of 16");
  expect(await fact("False alerts")).toHaveTextContent("3 of 40");
});

test("the what-if that the server runs with the request appears by itself", async () => {
  hasWhatIf = false;
  isRunning = true;
  renderPage(<ApprovalsPage />);
  const figures = await screen.findByRole("region", { name: "Figures of request 4" });
  expect(await within(figures).findByText("What-if of this request is running")).toBeVisible();
  hasWhatIf = true;
  isRunning = false;
  expect(await within(figures).findByText("Expected alerts per day", {}, { timeout: 4_000 })).toBeVisible();
});

test("a user runs the what-if of the requested rule on the page", async () => {
  hasWhatIf = false;
  const started: unknown[] = [];
  server.use(
    http.post(`*${API}/whatif`, async ({ request }) => {
      started.push(await request.json());
      hasWhatIf = true;
      return HttpResponse.json({ id: "0123456789ab" }, { status: 202 });
    }),
    http.get(`*${API}/whatif/0123456789ab`, () => HttpResponse.json({ status: "DONE", progress: 1, result: {} })),
  );
  renderPage(<ApprovalsPage />);
  const figures = await screen.findByRole("region", { name: "Figures of request 4" });
  expect(await within(figures).findByText("No what-if of this version of the rule yet")).toBeVisible();
  await userEvent.click(within(figures).getByRole("button", { name: "Run what-if over 14 days" }));
  expect(await within(figures).findByText("Expected alerts per day")).toBeVisible();
  expect(started).toEqual([{ document: approval(4).document, days: 14, windows: false }]);
});
