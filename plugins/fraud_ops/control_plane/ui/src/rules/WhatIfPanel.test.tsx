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
import { detail, rule } from "../testing/samples";
import { serve } from "../testing/serve";
import { show } from "../testing/show";
import { useRuleDraft } from "./useRuleDraft";
import { WhatIfPanel } from "./WhatIfPanel";

const RUN = "0123456789ab";
const A_LOOK = { timeout: 5_000 };
const RESULT: WhatIfResult = {
  days: ["2026-01-01", "2026-01-02"],
  transactions: 120_000,
  fires: 30,
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
    { ruleId: 6, name: "Unlike it", alerts: 17, both: 0 },
  ],
  seconds: 2.5,
};

/** What was asked to be tried, and how often after it was asked. */
let tried: unknown[] = [];
let looks = 0;

const server = serve(
  http.post(`*${API}/rules/validate`, async ({ request }) => {
    const { yaml } = (await request.json()) as { yaml: string };
    return HttpResponse.json(judged({ valid: true, document: parse(yaml) as unknown }));
  }),
  http.post(`*${API}/whatif`, async ({ request }) => {
    tried.push(await request.json());
    return HttpResponse.json({ id: RUN }, { status: 202 });
  }),
);

// The chart has no room here, and warns of it each time.
beforeEach(() => void vi.spyOn(console, "warn").mockReturnValue(undefined));
afterEach(() => {
  tried = [];
  looks = 0;
});

function judged(members: object) {
  return { valid: false, reasons: [], document: null, yaml: null, text: null, says: null, changes: [], ...members };
}

/** The run is in these states, one at each look, and stays in the last. */
function goes(...states: Partial<WhatIf>[]) {
  server.use(
    http.get(`*${API}/whatif/${RUN}`, () => {
      const state = states[Math.min(looks, states.length - 1)];
      looks += 1;
      const run = { id: RUN, status: "RUNNING", progress: 0.5, result: null, report: null, said: null, ...state };
      return HttpResponse.text(stringifyExactly(run));
    }),
  );
}

const ends = (members: Partial<WhatIfResult> = {}, run: Partial<WhatIf> = {}) =>
  goes({ status: "DONE", progress: 1, result: { ...RESULT, ...members }, ...run });

/** The panel of rule 1, and what is written of it. */
function OfTheRule({ busy = false }) {
  const writing = useRuleDraft(detail(), null, true);
  return (
    <>
      <pre aria-label="Rule text">{writing.text}</pre>
      <WhatIfPanel writing={writing} busy={busy} />
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

async function tryIt(busy = false) {
  show(<OfTheRule busy={busy} />);
  await waitFor(() => expect(button("Run what-if")).toBeEnabled());
  await userEvent.click(button("Run what-if"));
}

async function chosen(key: string) {
  const slider = screen.getByRole("slider", { name: "Limit" });
  slider.focus();
  await userEvent.keyboard(key);
  return slider;
}

test("nothing is tried before one asks, and the rule is tried as it is written", async () => {
  ends();
  show(<OfTheRule />);
  expect(screen.getByText(/Nothing is published/u)).toBeVisible();
  expect(await screen.findByText("SUM(paymentAmount) > 20 in 20 min per payeeId")).toBeVisible();
  expect(tried).toEqual([]);
  const days = screen.getByRole("textbox", { name: "Past days" });
  await userEvent.clear(days);
  expect(button("Run what-if"), "on no days").toBeDisabled();
  await userEvent.type(days, "30");
  await userEvent.click(button("Run what-if"));
  await screen.findByText("Total alerts");
  expect(tried).toEqual([{ document: rule().document, days: 30, windows: true }]);
});

test("no more days are asked for than there may be", async () => {
  ends();
  show(<OfTheRule />);
  const days = screen.getByRole("textbox", { name: "Past days" });
  await userEvent.clear(days);
  await userEvent.type(days, "400");
  await waitFor(() => expect(button("Run what-if")).toBeEnabled());
  await userEvent.click(button("Run what-if"));
  await waitFor(() => expect(tried).toMatchObject([{ days: 90 }]));
});

test("a rule that is not valid is not tried", async () => {
  server.use(
    http.post(`*${API}/rules/validate`, () =>
      HttpResponse.json(judged({ reasons: [{ field: "limit", message: "is required" }] })),
    ),
  );
  show(<OfTheRule />);
  expect(await screen.findByText("Correct the rule first: it is not valid.")).toBeVisible();
  expect(button("Run what-if")).toBeDisabled();
});

test("a run waits, runs and ends, and then is asked about no more", async () => {
  const result = { ...RESULT };
  goes({ status: "WAITING", progress: 0 }, { status: "RUNNING", progress: 0.5 }, { status: "DONE", result });
  await tryIt();
  expect(await screen.findByText("Queued")).toBeVisible();
  expect(await screen.findByText("Reading past days", {}, A_LOOK)).toBeVisible();
  expect(screen.getByRole("progressbar", { name: "Progress" })).toHaveAttribute("aria-valuenow", "50");
  expect(await screen.findByText("Total alerts", {}, A_LOOK)).toBeVisible();
  expect(screen.queryByRole("progressbar")).toBeNull();
  await delay(1_000);
  expect(looks).toBe(3);
});

test("what it found: how often, for whom, with other windows, and beside which rules", async () => {
  ends({}, { report: "/fraud-reports/whatif/1/report.html" });
  await tryIt();
  await screen.findByText("Total alerts");
  expect(fact("Total alerts")).toHaveTextContent("30");
  expect(fact("Alerts per day")).toHaveTextContent("15");
  expect(fact("Keys")).toHaveTextContent("12");
  expect(fact("Suppressed by cool-down")).toHaveTextContent("4");
  expect(fact("Transactions evaluated")).toHaveTextContent("120,000");
  expect(fact("Days")).toHaveTextContent("2026-01-01 to 2026-01-02");
  expect(screen.getByRole("img", { name: "Alerts by limit: 75 at 10, 1 at 80" })).toBeVisible();
  expect(cells("Alerts by window")).toEqual([
    ["10 min", "11"],
    ["40 min", "55"],
  ]);
  expect(cells("Keys with the most alerts")).toHaveLength(6);
  expect(cells("Keys with the most alerts")[0]).toEqual(["payeeId 100", "10"]);
  expect(cells("Overlap with rules in force")).toEqual([["5 Rapid transfers", "44", "13"]]);
  expect(screen.getByRole("link", { name: "Full report" })).toHaveAttribute(
    "href",
    "/fraud-reports/whatif/1/report.html",
  );
});

test("a rule that fires for nobody says so", async () => {
  ends({ fires: 0, keys: 0, busiest: [], windowsMs: [], overlap: [] });
  await tryIt();
  expect(await screen.findByText("No alerts for any key")).toBeVisible();
  expect(screen.queryByRole("table")).toBeNull();
});

test("a limit of the curve is taken over into what is written, and nothing is saved", async () => {
  ends();
  await tryIt();
  const limits = await screen.findByRole("region", { name: "Alerts by limit" });
  expect(limits, "the one nearest to the rule's").toHaveTextContent("limit 21: 30 alerts");
  const slider = await chosen("{ArrowRight}");
  expect(limits).toHaveTextContent("limit 40: 9 alerts");
  expect(slider).toHaveAttribute("aria-valuetext", "limit 40: 9 alerts");
  await userEvent.click(button("Use this limit"));
  expect(screen.getByLabelText("Rule text")).toHaveTextContent(/limit: 40 /u);
  expect(button("Use this limit"), "the rule has it").toBeDisabled();
  expect(await screen.findByText(/> 40 in 20 min/u)).toBeVisible();
});

test("while it is being saved no limit is taken over: the answer would overwrite it", async () => {
  ends();
  await tryIt(true);
  await screen.findByRole("region", { name: "Alerts by limit" });
  await chosen("{ArrowRight}");
  await userEvent.click(button("Use this limit"));
  expect(screen.getByLabelText("Rule text")).not.toHaveTextContent(/limit: 40 /u);
});

test("a limit that JavaScript would round is taken over digit by digit", async () => {
  const exact = "12345678901234567.25";
  ends({
    limits: [
      [20, 30],
      [new LosslessNumber(exact), 0],
    ],
  });
  await tryIt();
  const limits = await screen.findByRole("region", { name: "Alerts by limit" });
  await chosen("{End}");
  expect(limits).toHaveTextContent(`limit ${exact}: 0 alerts`);
  await userEvent.click(button("Use this limit"));
  expect(screen.getByLabelText("Rule text")).toHaveTextContent(`limit: "${exact}"`);
});

test("a run that fails says why, and another can be asked for", async () => {
  goes({ status: "FAILED", progress: 1, said: "there is no archive of these days" });
  await tryIt();
  expect(await screen.findByRole("alert")).toHaveTextContent("What-if failed: there is no archive of these days");
  ends();
  server.use(http.post(`*${API}/whatif`, () => HttpResponse.json({ id: "ba9876543210" }, { status: 202 })));
  server.use(http.get(`*${API}/whatif/ba9876543210`, () => HttpResponse.json({ status: "DONE", result: RESULT })));
  await userEvent.click(button("Run what-if"));
  expect(await screen.findByText("Total alerts")).toBeVisible();
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a run that is not taken on says why", async () => {
  const detail = "10 what-ifs wait already: try again when they are done";
  server.use(
    http.post(`*${API}/whatif`, () => HttpResponse.json({ title: "This cannot be done now", detail }, { status: 409 })),
  );
  await tryIt();
  expect(await screen.findByRole("alert")).toHaveTextContent(detail);
});

test("a run that the server has forgotten is said to be, and not asked about again and again", async () => {
  const title = "There is no such thing";
  server.use(
    http.get(`*${API}/whatif/${RUN}`, () => {
      looks += 1;
      return HttpResponse.json({ title, detail: "the API server may have been restarted since" }, { status: 404 });
    }),
  );
  await tryIt();
  expect(await screen.findByRole("alert")).toHaveTextContent("the API server may have been restarted since");
  await delay(1_600);
  expect(looks).toBe(1);
  ends();
  await userEvent.click(button("Try again"));
  expect(await screen.findByText("Total alerts")).toBeVisible();
});
