// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { LosslessNumber } from "lossless-json";
import { delay, http, HttpResponse } from "msw";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { stringifyExactly } from "../api/exactJson";
import { API } from "../api/http";
import type { WhatIf, WhatIfResult } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { detail, rule, SCHEMA } from "../testing/samples";
import { useRuleEdit } from "./useRuleEdit";
import { WhatIfPanel } from "./WhatIfPanel";

const RUN = "0123456789ab";
const ONE_POLL = { timeout: 5_000 };
const RESULT: WhatIfResult = {
  rule: { ruleId: 1, limit: 20 },
  days: ["2026-01-01", "2026-01-02", "2026-01-03"],
  coverage: { days: 3, daysWithData: 2, coveredMs: 172_800_000, thin: false },
  transactions: 120_000,
  fires: 30,
  alertsPerDay: 15,
  suppressed: 4,
  keys: 12,
  limits: [
    [10, 75],
    [21, 30],
    [40, 9],
    [80, 1],
  ],
  windowsMs: [
    [600_000, 11],
    [2_400_000, 55],
  ],
  hours: [],
  busiest: Array.from({ length: 8 }, (_, i) => [{ payeeId: 100 + i }, 10 - i]),
  overlap: [
    { ruleId: 5, name: "Rapid transfers", alerts: 44, both: 13 },
    { ruleId: 6, name: "Another rule", alerts: 17, both: 0 },
  ],
  seconds: 2.5,
};

/** The requested runs, and the number of polls after that. */
let started: unknown[] = [];
let polls = 0;
let archivedDays = RESULT.days;

const server = mockServer(
  http.post(`*${API}/rules/validate`, async ({ request }) => {
    const { yaml } = (await request.json()) as { yaml: string };
    return HttpResponse.json(validated({ valid: true, document: parse(yaml) as unknown }));
  }),
  http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  http.get(`*${API}/archived-days`, () => HttpResponse.json({ days: archivedDays })),
  http.post(`*${API}/whatif`, async ({ request }) => {
    started.push(await request.json());
    return HttpResponse.json({ id: RUN }, { status: 202 });
  }),
);

// The chart has no size in jsdom and logs a warning each time.
beforeEach(() => void vi.spyOn(console, "warn").mockReturnValue(undefined));
afterEach(() => {
  started = [];
  archivedDays = RESULT.days;
  polls = 0;
});

function validated(members: object) {
  return {
    valid: false,
    reasons: [],
    warnings: [],
    document: null,
    yaml: null,
    text: null,
    says: null,
    changes: [],
    ...members,
  };
}

test("without archived days, the panel shows the next run of the archive job and starts nothing", async () => {
  archivedDays = [];
  renderPage(<RuleFixture />);
  expect(await screen.findByText(/No past days are archived yet/u)).toHaveTextContent("fraud_archive");
  expect(screen.getByRole("button", { name: "Run what-if" })).toBeDisabled();
});

/** The server answers each poll with the next of these states, then repeats the last one. */
function answerPolls(...states: Partial<WhatIf>[]) {
  server.use(
    http.get(`*${API}/whatif/${RUN}`, () => {
      const state = states[Math.min(polls, states.length - 1)];
      polls += 1;
      const run = { id: RUN, status: "RUNNING", progress: 0.5, result: null, report: null, said: null, ...state };
      return HttpResponse.text(stringifyExactly(run));
    }),
  );
}

const finish = (members: Partial<WhatIfResult> = {}, run: Partial<WhatIf> = {}) =>
  answerPolls({ status: "DONE", progress: 1, result: { ...RESULT, ...members }, ...run });

/** The panel of rule 1, with the edited text above it. */
function RuleFixture({ busy = false }) {
  const writing = useRuleEdit(detail(), null, true);
  return (
    <>
      <pre aria-label="Rule text">{writing.text}</pre>
      <WhatIfPanel edit={writing} busy={busy} />
    </>
  );
}

const button = (name: string) => screen.getByRole("button", { name });
const fact = (name: string) => screen.getByText(name).nextElementSibling;
const cells = (table: string) =>
  within(screen.getByRole("table", { name: table }))
    .getAllByRole("row")
    .slice(1)
    .map((row) =>
      within(row)
        .getAllByRole("cell")
        .map((cell) => cell.textContent),
    );

async function runWhatIf(busy = false) {
  renderPage(<RuleFixture busy={busy} />);
  await waitFor(() => expect(button("Run what-if")).toBeEnabled());
  await userEvent.click(button("Run what-if"));
}

async function moveSlider(key: string) {
  const slider = screen.getByRole("slider", { name: "Limit" });
  slider.focus();
  await userEvent.keyboard(key);
  return slider;
}

test("a run starts on request only, with the rule as edited", async () => {
  finish();
  renderPage(<RuleFixture />);
  expect(screen.getByText(/Nothing is published/u)).toBeVisible();
  expect(await screen.findByText("SUM(paymentAmount) > 20 in 20 min per payeeId")).toBeVisible();
  expect(started).toEqual([]);
  const days = screen.getByRole("textbox", { name: "Past days" });
  await userEvent.clear(days);
  expect(button("Run what-if"), "without days").toBeDisabled();
  await userEvent.type(days, "30");
  await userEvent.click(button("Run what-if"));
  await screen.findByText("Total alerts");
  expect(started).toEqual([{ document: rule().document, days: 30, windows: true }]);
});

test("a limit that is an expression is changed by a factor", async () => {
  const limits: WhatIfResult["limits"] = [
    [0.5, 75],
    [1, 30],
    [2, 9],
  ];
  finish({ rule: { ruleId: 1, limit: "paymentAmount + 1" }, limits });
  await runWhatIf();
  const chart = await screen.findByRole("region", { name: "Alerts by limit" });
  expect(chart).toHaveTextContent("Alerts by factor of the limit");
  expect(chart).toHaveTextContent("factor 1: 30 alerts");
  await moveSlider("{ArrowRight}");
  await userEvent.click(button("Use this limit"));
  expect(screen.getByLabelText("Rule text")).toHaveTextContent("limit: 2 * (paymentAmount + 1)");
});

test("the number of days is limited", async () => {
  finish();
  renderPage(<RuleFixture />);
  const days = screen.getByRole("textbox", { name: "Past days" });
  await userEvent.clear(days);
  await userEvent.type(days, "400");
  await waitFor(() => expect(button("Run what-if")).toBeEnabled());
  await userEvent.click(button("Run what-if"));
  await waitFor(() => expect(started).toMatchObject([{ days: 90 }]));
});

test("an invalid rule cannot run", async () => {
  server.use(
    http.post(`*${API}/rules/validate`, () =>
      HttpResponse.json(validated({ reasons: [{ field: "limit", message: "is required" }] })),
    ),
  );
  renderPage(<RuleFixture />);
  expect(await screen.findByText("Correct the rule first: it is not valid.")).toBeVisible();
  expect(button("Run what-if")).toBeDisabled();
});

test("a run is queued, runs and ends, and then polling stops", async () => {
  const result = { ...RESULT };
  answerPolls({ status: "WAITING", progress: 0 }, { status: "RUNNING", progress: 0.5 }, { status: "DONE", result });
  await runWhatIf();
  expect(await screen.findByText("Queued")).toBeVisible();
  expect(await screen.findByText("Reading past days", {}, ONE_POLL)).toBeVisible();
  expect(screen.getByRole("progressbar", { name: "Progress" })).toHaveAttribute("aria-valuenow", "50");
  expect(await screen.findByText("Total alerts", {}, ONE_POLL)).toBeVisible();
  expect(screen.queryByRole("progressbar")).toBeNull();
  await delay(1_000);
  expect(polls).toBe(3);
});

test("the report shows alerts, keys, windows and overlapping rules", async () => {
  finish({}, { report: "/fraud/reports/whatif/1/report.html" });
  await runWhatIf();
  await screen.findByText("Total alerts");
  expect(fact("Total alerts")).toHaveTextContent("30");
  expect(fact("Alerts per day")).toHaveTextContent("15");
  expect(fact("Keys")).toHaveTextContent("12");
  expect(fact("Suppressed by cool-down")).toHaveTextContent("4");
  expect(fact("Transactions evaluated")).toHaveTextContent("120,000");
  expect(fact("Days")).toHaveTextContent("2026-01-01 to 2026-01-03");
  expect(fact("Days with data")).toHaveTextContent(/^2 of 3$/u);
  expect(screen.getByRole("img", { name: "Alerts by limit: 75 at 10, 1 at 80" })).toBeVisible();
  expect(cells("Alerts by window")).toEqual([
    ["10 min", "11"],
    ["40 min", "55"],
  ]);
  expect(cells("Keys with the most alerts")).toHaveLength(6);
  expect(cells("Keys with the most alerts")[0]).toEqual(["Payer 100", "10"]);
  expect(cells("Overlap with rules in force")).toEqual([["5 Rapid transfers", "44", "13"]]);
  expect(screen.getByRole("link", { name: "Full report" })).toHaveAttribute(
    "href",
    "/fraud/reports/whatif/1/report.html",
  );
});

const LABELS: WhatIfResult["labels"] = {
  fraud: 16,
  notFraud: 40,
  outside: 5,
  skipped: { "replaced by a later label": 2 },
  caught: 14,
  falseAlerts: 3,
  suppressed: 1,
  missed: [7],
  sources: { mark: 40, topic: 16 },
  byLimit: [
    [15, 9],
    [14, 3],
    [6, 0],
    [0, 0],
  ],
};

test("the report says which marked frauds the rule catches, at its own and at another limit", async () => {
  finish({ labels: LABELS });
  await runWhatIf();
  await screen.findByText("Total alerts");
  expect(fact("Confirmed frauds caught")).toHaveTextContent("14 of 16");
  expect(fact("False alerts")).toHaveTextContent("3 of 40");
  expect(fact("Precision of labelled alerts")).toHaveTextContent("82 % (59–94 %)");
  expect(fact("Alerts without a label")).toHaveTextContent("13 of 30");
  expect(screen.getByText(/Labels of the archived 2 days: 40 from marks, 16 from the topic\./u)).toHaveTextContent(
    "5 labels outside these days or not archived yet. Frauds without an alert because of the cool-down: 1. " +
      "Labels skipped or replaced by a later one: 2.",
  );
  const limits = screen.getByRole("region", { name: "Alerts by limit" });
  expect(limits).toHaveTextContent("catches 14 of 16 confirmed frauds, 3 of 40 false alerts");
  const chart = "Precision and recall by limit, of 16 confirmed frauds and 40 false alerts";
  expect(within(limits).getByRole("img", { name: chart })).toBeVisible();
  await moveSlider("{ArrowRight}");
  expect(limits).toHaveTextContent("catches 6 of 16 confirmed frauds, 0 of 40 false alerts");
});

test("wishes are sent, and a suggested limit changes the edited rule", async () => {
  finish({
    labels: LABELS,
    suggestions: [
      { wanted: "ALERTS_PER_DAY", target: 5, limit: 40, fires: 9, alertsPerDay: 4.5, caught: 6, falseAlerts: 0 },
      {
        wanted: "PRECISION",
        target: 0.9,
        limit: null,
        fires: null,
        alertsPerDay: null,
        caught: null,
        falseAlerts: null,
      },
    ],
  });
  renderPage(<RuleFixture />);
  await waitFor(() => expect(button("Run what-if")).toBeEnabled());
  await userEvent.type(screen.getByRole("textbox", { name: "Wanted alerts per day" }), "5");
  await userEvent.type(screen.getByRole("textbox", { name: "Wanted precision (%)" }), "90");
  await userEvent.click(button("Run what-if"));
  const suggested = await screen.findByRole("region", { name: "Suggested limits" });
  expect(started).toMatchObject([{ alertsPerDay: 5, precision: 0.9 }]);
  expect(suggested).toHaveTextContent(
    "At most 5 alerts per day: limit 40, 4.5 alerts per day, catches 6 of 16 confirmed frauds, 0 of 40 false alerts",
  );
  expect(suggested).toHaveTextContent("Precision of at least 90 % of labelled alerts: no limit");
  await userEvent.click(button("Use limit 40"));
  expect(screen.getByLabelText("Rule text")).toHaveTextContent(/limit: 40 /u);
});

test("a suggested limit has separators of thousands, and is used without them", async () => {
  finish({
    suggestions: [
      {
        wanted: "ALERTS_PER_DAY",
        target: 5,
        limit: 20_000,
        fires: 9,
        alertsPerDay: 4.5,
        caught: null,
        falseAlerts: null,
      },
    ],
  });
  await runWhatIf();
  const suggested = await screen.findByRole("region", { name: "Suggested limits" });
  expect(suggested).toHaveTextContent("limit 20,000, 4.5 alerts per day");
  await userEvent.click(button("Use limit 20,000"));
  expect(screen.getByLabelText("Rule text")).toHaveTextContent(/limit: 20000 /u);
});

test("a report on little data says so beside its rates", async () => {
  finish({ coverage: { days: 7, daysWithData: 1, coveredMs: 18_000_000, thin: true } });
  await runWhatIf();
  await screen.findByText("Total alerts");
  expect(fact("Days with data")).toHaveTextContent("1 of 7 Little data (5 h): rates are rough");
});

test("the report of a rule without alerts", async () => {
  finish({ fires: 0, keys: 0, busiest: [], windowsMs: [], overlap: [] });
  await runWhatIf();
  expect(await screen.findByText("No alerts for any key")).toBeVisible();
  expect(screen.queryByRole("table")).toBeNull();
});

test("a limit from the chart changes the edited rule and saves nothing", async () => {
  finish();
  await runWhatIf();
  const limits = await screen.findByRole("region", { name: "Alerts by limit" });
  expect(limits, "nearest to the limit of the rule").toHaveTextContent("limit 21: 30 alerts");
  const slider = await moveSlider("{ArrowRight}");
  expect(limits).toHaveTextContent("limit 40: 9 alerts");
  expect(slider).toHaveAttribute("aria-valuetext", "limit 40: 9 alerts");
  await userEvent.click(button("Use this limit"));
  expect(screen.getByLabelText("Rule text")).toHaveTextContent(/limit: 40 /u);
  expect(button("Use this limit"), "the rule has this limit").toBeDisabled();
  expect(await screen.findByText(/more than 40 EUR within 20 minutes/u)).toBeVisible();
});

test("during a save no limit can be used, because the response would overwrite it", async () => {
  finish();
  await runWhatIf(true);
  await screen.findByRole("region", { name: "Alerts by limit" });
  await moveSlider("{ArrowRight}");
  await userEvent.click(button("Use this limit"));
  expect(screen.getByLabelText("Rule text")).not.toHaveTextContent(/limit: 40 /u);
});

test("a limit that JavaScript would round is used digit by digit", async () => {
  const exact = "12345678901234567.25";
  finish({
    limits: [
      [20, 30],
      [new LosslessNumber(exact), 0],
    ],
  });
  await runWhatIf();
  const limits = await screen.findByRole("region", { name: "Alerts by limit" });
  await moveSlider("{End}");
  expect(limits).toHaveTextContent("limit 12,345,678,901,234,567.25: 0 alerts");
  await userEvent.click(button("Use this limit"));
  expect(screen.getByLabelText("Rule text")).toHaveTextContent(`limit: "${exact}"`);
});

test("a failed run shows its reason, and another run can start", async () => {
  answerPolls({ status: "FAILED", progress: 1, said: "there is no archive of these days" });
  await runWhatIf();
  expect(await screen.findByRole("alert")).toHaveTextContent("What-if failed: there is no archive of these days");
  finish();
  server.use(http.post(`*${API}/whatif`, () => HttpResponse.json({ id: "ba9876543210" }, { status: 202 })));
  server.use(http.get(`*${API}/whatif/ba9876543210`, () => HttpResponse.json({ status: "DONE", result: RESULT })));
  await userEvent.click(button("Run what-if"));
  expect(await screen.findByText("Total alerts")).toBeVisible();
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a refused run shows its reason", async () => {
  const detail = "10 what-ifs are already waiting: try again when they are done";
  server.use(
    http.post(`*${API}/whatif`, () =>
      HttpResponse.json({ title: "Not possible in the current state", detail }, { status: 409 }),
    ),
  );
  await runWhatIf();
  expect(await screen.findByRole("alert")).toHaveTextContent(detail);
});

test("a run that the server has forgotten shows an error and stops polling", async () => {
  const title = "Not found";
  server.use(
    http.get(`*${API}/whatif/${RUN}`, () => {
      polls += 1;
      return HttpResponse.json({ title, detail: "the API server may have restarted since" }, { status: 404 });
    }),
  );
  await runWhatIf();
  expect(await screen.findByRole("alert")).toHaveTextContent("the API server may have restarted since");
  await delay(1_600);
  expect(polls).toBe(1);
  finish();
  await userEvent.click(button("Try again"));
  expect(await screen.findByText("Total alerts")).toBeVisible();
});
