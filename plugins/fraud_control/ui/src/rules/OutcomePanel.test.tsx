// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { Outcome } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { APPROVER, detail } from "../testing/samples";
import { OutcomePanel } from "./OutcomePanel";

const LIVE = 1_700_000_000_000;
const SPAN = {
  since: LIVE,
  until: LIVE + 86_400_000,
  alerts: 52,
  alertsPerDay: 26,
  amount: "1234.50",
  fraud: 2,
  notFraud: 1,
  repeatedKeys: 3,
};

let answer: Outcome = { outcome: null, report: null };
const server = mockServer(http.get(`*${API}/rules/7/outcome`, () => HttpResponse.json(answer)));

test("the panel shows the prediction beside each day since the approval", async () => {
  answer = {
    report: "/fraud/reports/whatif/report-1",
    outcome: {
      liveSince: LIVE,
      approvedBy: "pat",
      previousRevision: 3,
      shadowPerDay: 4.5,
      prediction: {
        report: "report-1",
        predictedDays: 7,
        perDay: 10,
        low: 6,
        high: 16,
        limits: [{ limit: "1200.00", perDay: 2.5, low: 0, high: 6 }],
      },
      days: [
        { day: "2023-11-15", alerts: 40, shadow: 0, whole: true, off: true },
        { day: "2023-11-16", alerts: 12, shadow: 3, whole: false, off: false },
      ],
      before: { ...SPAN, alerts: 0, alertsPerDay: 0, amount: null, fraud: 0, notFraud: 0, repeatedKeys: 0 },
      after: SPAN,
    },
  };
  renderPage(<OutcomePanel rule={detail({ ruleId: 7, revision: 4 })} me={APPROVER} />);
  const rows = within(await screen.findByRole("table", { name: "Days since the change" })).getAllByRole("row");
  expect(rows.map((row) => row.textContent).slice(-2)).toEqual([
    "2023-11-16 so far6 to 16123",
    "2023-11-156 to 16400outside of the prediction",
  ]);
  expect(screen.getByText("10 (6 to 16)")).toBeVisible();
  expect(screen.getByText("1,234.50")).toBeVisible();
  expect(screen.getByRole("link", { name: "What-if over 7 whole days" })).toBeVisible();
});

test("one click rolls back to the content before, or requests it", async () => {
  let sent: unknown;
  server.use(
    http.post(`*${API}/rules/7/rollback`, async ({ request }) => {
      sent = await request.json();
      return HttpResponse.json(detail({ ruleId: 7 }), { status: 202 });
    }),
  );
  renderPage(<OutcomePanel rule={detail({ ruleId: 7, revision: 4 })} me={APPROVER} />);
  await userEvent.click(await screen.findByRole("button", { name: "Roll back to revision 3" }));
  const comment = "Rollback of revision 4, after its outcome";
  await waitFor(() => expect(sent).toEqual({ revision: 3, comment }));
});

test("a rule without a change says so", async () => {
  answer = { outcome: null, report: null };
  renderPage(<OutcomePanel rule={detail({ ruleId: 7, revision: 4 })} me={APPROVER} />);
  expect(await screen.findByText(/did not change in the last 30 days/u)).toBeVisible();
});
