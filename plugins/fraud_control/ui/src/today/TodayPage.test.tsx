// @vitest-environment jsdom
import { screen, within } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { Today } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { SCHEMA } from "../testing/samples";
import { countsByLevel } from "./HourChart";
import { TodayPage } from "./TodayPage";

const HOUR_MS = 3_600_000;
const SINCE = 1_700_000_400_000;

function today(members: Partial<Today> = {}): Today {
  const hours = Array.from({ length: 24 }, (_, i) => ({ time: SINCE + i * HOUR_MS, live: {}, shadow: 0 }));
  return {
    at: SINCE + 24 * HOUR_MS,
    since: SINCE,
    complete: true,
    hours,
    alerts: 0,
    shadowAlerts: 0,
    unreviewed: 0,
    openCases: 0,
    overdueCases: 2,
    unassignedCases: 0,
    decisions: { DECLINE: 0, REVIEW: 0, NOTE: 0 },
    rules: [],
    keys: [],
    changes: [],
    predicted: [],
    ...members,
  };
}

let answer = today();
mockServer(
  http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  http.get(`*${API}/today`, () => HttpResponse.json(answer)),
);

test("the page shows figures, rules, payers and changes of the day", async () => {
  answer = today({
    alerts: 12_345,
    unreviewed: 12_300,
    openCases: 340,
    unassignedCases: 320,
    decisions: { DECLINE: 4, REVIEW: 56, NOTE: 7 },
    rules: [{ ruleId: 5, name: "Rapid transfers", severity: "high", live: 12_000, shadow: 1 }],
    keys: [
      {
        field: "payeeId",
        values: [
          { value: "42", alerts: 99 },
          { value: "••••4711", alerts: 98 },
        ],
      },
    ],
    changes: [
      { ruleId: 5, name: "Rapid transfers", revision: 3, state: "ACTIVE", author: "ben", at: SINCE, comment: "seen" },
    ],
  });
  renderPage(<TodayPage />);
  expect(await screen.findByText("12,345")).toBeVisible();
  expect(screen.getByText("12,300")).toBeVisible();
  expect(screen.getByRole("link", { name: "56" })).toHaveAttribute("href", "/decisions?outcome=REVIEW");
  const rules = screen.getByRole("table", { name: "Rules with the most alerts" });
  expect(within(rules).getByRole("link", { name: "12,000" })).toHaveAttribute(
    "href",
    "/alerts?ruleId=5&shadow=false&since=24h",
  );
  const payers = await screen.findByRole("table", { name: "Most alerts by Payer" });
  expect(within(payers).getByRole("link", { name: "42" })).toHaveAttribute("href", "/entity?field=payeeId&value=42");
  expect(within(payers).getByRole("cell", { name: "••••4711" })).toBeVisible();
  expect(within(payers).getAllByRole("link")).toHaveLength(2);
  expect(within(payers).getByRole("link", { name: "99" })).toHaveAttribute(
    "href",
    "/alerts?entity=payeeId%3A42&shadow=false&since=24h",
  );
  expect(screen.getByText(/revision 3, ben: seen/u)).toBeVisible();
});

test("approved rules have predicted, actual and shadow alerts, those outside of their prediction first", async () => {
  const inside = {
    ruleId: 5,
    name: "",
    day: "2023-11-14",
    alerts: 9,
    shadow: 2,
    perDay: 10,
    low: 6,
    high: 16,
    off: false,
  };
  answer = today({ predicted: [inside, { ...inside, ruleId: 7, name: "Mules", alerts: 40, off: true }] });
  renderPage(<TodayPage />);
  const table = await screen.findByRole("table", { name: "Rules approved in the last 30 days" });
  const [, first, second] = within(table).getAllByRole("row");
  expect(first).toHaveTextContent("7 Mules2023-11-1410 (6 to 16)402outside of the prediction");
  expect(second).toHaveTextContent("5 2023-11-1410 (6 to 16)92");
  expect(screen.getByRole("link", { name: "7 Mules" })).toHaveAttribute("href", "/rules/7?tab=outcome");
});

test("a day without alerts, and figures that are not complete", async () => {
  answer = today({ complete: false });
  renderPage(<TodayPage />);
  expect(await screen.findByText(/Older alerts of this day are missing/u)).toBeVisible();
  expect(screen.getByText("No changes")).toBeVisible();
});

test("severities without a known level count as other", () => {
  expect(countsByLevel({ time: SINCE, live: { critical: 1, urgent: 2, "": 3 }, shadow: 9 })).toEqual({
    critical: 1,
    high: 0,
    medium: 0,
    low: 0,
    none: 5,
  });
});
