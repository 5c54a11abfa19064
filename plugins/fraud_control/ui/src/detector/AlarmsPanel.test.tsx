// @vitest-environment jsdom
import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { Alarm, Alarms } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { SINCE } from "../testing/samples";
import { AlarmsPanel } from "./AlarmsPanel";

const server = mockServer();

const STALLED: Alarm = {
  id: 1,
  name: "STALLED",
  severity: "critical",
  part: "",
  said: "batch 7 ended 41 s ago",
  source: "http://airflow/log",
  runbook: "/fraud/runbooks/stalled",
  receivers: ["fraud_webhook"],
  first: SINCE - 60_000,
  last: SINCE,
  count: 3,
  cleared: null,
  old: false,
};

function panel(alarms: Partial<Alarms>) {
  server.use(http.get(`*${API}/alarms`, () => HttpResponse.json({ items: [], alarmReceivers: [], ...alarms })));
  renderPage(<AlarmsPanel />);
}

test("without a receiver and without an alarm, the panel says both", async () => {
  panel({});
  expect(await screen.findByText("No receiver is configured")).toBeVisible();
  expect(screen.getByText(/No alarm in the last 24 hours/u)).toBeVisible();
});

test("a recent alarm has its runbook, log, count and state", async () => {
  panel({ items: [STALLED], alarmReceivers: ["fraud_webhook", "fraud_smtp"] });
  expect(await screen.findByText("webhook, mail")).toBeVisible();
  const [, row] = within(screen.getByRole("table", { name: "Recent alarms" })).getAllByRole("row");
  expect(row).toHaveTextContent("CriticalSTALLEDbatch 7 ended 41 s ago Log");
  expect(row).toHaveTextContent("3Not clearedwebhook");
  expect(screen.getByRole("link", { name: "STALLED" })).toHaveAttribute("href", "/fraud/runbooks/stalled");
  expect(screen.getByRole("link", { name: "Log" })).toHaveAttribute("href", "http://airflow/log");
});

test("cleared and old alarms are shown on request, dimmed", async () => {
  const cleared = { ...STALLED, id: 2, cleared: SINCE + 1_000, old: true, source: "" };
  const old = { ...STALLED, id: 3, name: "TASK_FAILED", severity: "warning" as const, part: "fraud_archive.archive" };
  panel({ items: [cleared, { ...old, receivers: [], old: true }] });
  const button = await screen.findByRole("button", { name: "Show cleared and old alarms (2)" });
  expect(screen.queryByRole("table")).toBeNull();
  await userEvent.click(button);
  const [, first, second] = within(screen.getByRole("table", { name: "Cleared and old alarms" })).getAllByRole("row");
  expect(first).toHaveClass("old");
  expect(first).toHaveTextContent(/Cleared /u);
  expect(second).toHaveTextContent("WarningTASK_FAILEDfraud_archive.archive");
  expect(second).toHaveTextContent("Old, end unknown–");
});
