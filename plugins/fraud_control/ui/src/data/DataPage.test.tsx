// @vitest-environment jsdom
import { screen, within } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { DataHealth } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { SCHEMA } from "../testing/samples";
import DataPage from "./DataPage";

const SINCE = 1_700_000_400_000;
const HOUR = {
  time: SINCE,
  rows: 1_200,
  late: 3,
  quarantined: 45,
  duplicates: 6,
  conflictingDuplicates: 5,
  nullKeys: 7,
  uncountedBatches: 0,
};

function health(members: Partial<DataHealth> = {}): DataHealth {
  return {
    recorded: true,
    at: SINCE,
    since: SINCE,
    until: SINCE,
    hours: [HOUR],
    fields: [],
    reasons: [],
    groupings: [],
    newTexts: [],
    faults: [],
    ...members,
  };
}

let answer = health();
mockServer(
  http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  http.get(`*${API}/data-health`, () => HttpResponse.json(answer)),
);

test("the page shows the figures of the day, fields, reasons, new texts and verdicts", async () => {
  answer = health({
    hours: [HOUR, { ...HOUR, time: SINCE + 3_600_000 }],
    fields: [{ name: "payeeId", nulls: 1_234, share: 0.515, shareBefore: 0.001 }],
    reasons: [{ reason: "past_event_time", count: 40, countBefore: 0, since: SINCE, detail: "in seconds it is 2023" }],
    groupings: [{ grouping: "beneficiaryId&payeeId", late: 3, lateBefore: 9, keys: 4_321 }],
    newTexts: [{ name: "paymentType", text: "WIR", count: 77, since: SINCE }],
    faults: [
      {
        verdict: "RULE_RATE",
        reason: "99 alerts",
        since: SINCE,
        name: null,
        ruleId: 5,
        runbook: "/runbooks/rule-rate",
      },
    ],
  });
  renderPage(<DataPage />);
  expect(await screen.findByText("2,400")).toBeVisible();
  expect(within(screen.getByRole("table", { name: "Fields" })).getByText("51.5 %")).toBeVisible();
  expect(within(screen.getByRole("table", { name: "Quarantine by reason" })).getByText(/in seconds/u)).toBeVisible();
  expect(within(screen.getByRole("table", { name: "New texts" })).getByText("WIR")).toBeVisible();
  expect(within(screen.getByRole("table", { name: "Groupings" })).getByText("beneficiaryId, payeeId")).toBeVisible();
  expect(within(screen.getByRole("region", { name: "Hours" })).getAllByText("1,200")).toHaveLength(2);
  const verdicts = within(screen.getByRole("region", { name: "Verdicts" }));
  expect(verdicts.getByText("RULE RATE")).toBeVisible();
  expect(verdicts.getByRole("link", { name: "Rule 5" })).toHaveAttribute("href", "/rules/5");
});

test("the page names the command that creates a missing topic", async () => {
  answer = health({ recorded: false, since: null, until: null, hours: [] });
  renderPage(<DataPage />);
  expect(await screen.findByText(/fraud kafka topics apply/u)).toBeVisible();
});
