// @vitest-environment jsdom
import { screen, within } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { QualityTable } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ANALYST, rule } from "../testing/samples";
import QualityPage from "./QualityPage";

const MINUTE_MS = 60_000;

const server = mockServer(
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/rules/names`, () => HttpResponse.json({ items: [rule()] })),
  http.get(`*${API}/labels`, () => HttpResponse.json({ sources: [], unreadable: 0 })),
);

const NONE: QualityTable["labels"] = { since: 0, frauds: 0, rules: [], combinations: [] };

test.each([
  ["of a rule whose first alert is 10 minutes old has no extrapolation", 10, "40 in 10 min"],
  ["of an older rule is per hour", 90, "240"],
])("the alert rate %s", async (_, minutes, rate) => {
  const since = Date.now() - minutes * MINUTE_MS;
  const counts = { alerts: 40, perHour: 240 };
  const row: QualityTable["items"][number] = { ruleId: 1, since, flooding: false, overlap: [], ...counts };
  server.use(http.get(`*${API}/quality`, () => HttpResponse.json({ items: [row], labels: NONE })));
  renderPage(<QualityPage />);
  const [, , perHour] = await screen.findAllByRole("cell");
  expect(perHour).toHaveTextContent(new RegExp(`^${rate}$`, "u"));
});

test("each rule and each combination has precision, recall, amount and the unlabelled share", async () => {
  const found = { payments: 4, fraud: 1, notFraud: 1, unlabelled: 0.5, precision: 0.5, recall: 0.25 };
  const row = { ...found, amount: "1100.00", fraudAmount: "100.00" };
  const labels: QualityTable["labels"] = {
    since: 1_700_000_000_000,
    frauds: 4,
    rules: [{ ruleId: 1, alertsPerDay: 3, falseAlertsPerDay: 1.5, ...row }],
    combinations: [{ ruleIds: [1, 8], ...row }],
  };
  server.use(http.get(`*${API}/quality`, () => HttpResponse.json({ items: [], labels })));
  renderPage(<QualityPage />);
  const [, one] = within(await screen.findByRole("table", { name: "Rules by labels" })).getAllByRole("row");
  expect(one).toHaveTextContent("1.5 of 34111/250 % unlabelled25 %1,100.00100.00");
  const both = screen.getByRole("table", { name: "Combinations of rules by labels" });
  expect(within(both).getByRole("link", { name: "8" })).toHaveAttribute("href", "/rules/8");
});
