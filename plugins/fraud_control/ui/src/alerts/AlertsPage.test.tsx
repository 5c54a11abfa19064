// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { useLocation } from "react-router";
import { afterEach, expect, test } from "vitest";
import { API } from "../api/http";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { StreamProvider, useStream } from "../stream/StreamProvider";
import { alert, ANALYST, rule, SCHEMA } from "../testing/samples";
import { AlertsPage } from "./AlertsPage";
import type { Mark } from "./types";

const END = { next: null, searchedTo: null, missing: null };
let snoozed: object[] = [];

const server = mockServer(
  http.get(`*${API}/cases`, () => HttpResponse.json({ items: [], next: null })),
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  http.get(`*${API}/rules/names`, () => HttpResponse.json({ items: [rule()] })),
  http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  http.get(`*${API}/snoozes`, () => HttpResponse.json({ items: [] })),
  http.post(`*${API}/snoozes`, async ({ request }) => {
    snoozed = [(await request.json()) as object];
    return HttpResponse.json({}, { status: 201 });
  }),
);

afterEach(() => {
  snoozed = [];
});

function answers(pages: Record<string, object>) {
  server.use(
    http.get(`*${API}/alerts`, ({ request }) =>
      HttpResponse.json(pages[new URL(request.url).searchParams.get("before") ?? "first"] ?? { items: [], ...END }),
    ),
  );
}

const items = async () => within(await screen.findByRole("list", { name: "Alerts" })).queryAllByRole("listitem");

test("the list continues after a bounded search, and shows the limit of retention", async () => {
  answers({
    first: { items: [alert("a")], ...END, next: "p1" },
    p1: { items: [], next: "p2", searchedTo: Date.UTC(2026, 0, 2), missing: null },
    p2: { items: [alert("b")], ...END, missing: "what is older is no longer in alerts" },
  });
  renderPage(<AlertsPage />);
  expect(await items()).toHaveLength(1);
  const older = () => userEvent.click(screen.getByRole("button", { name: "Load older alerts" }));
  await older();
  expect(await screen.findByText(/Searched back to/u)).toBeVisible();
  await older();
  await waitFor(async () => expect(await items()).toHaveLength(2));
  expect(screen.getByText("what is older is no longer in alerts")).toBeVisible();
  expect(screen.queryByRole("button", { name: "Load older alerts" })).toBeNull();
});

test("a search without a result can continue", async () => {
  answers({
    first: { items: [], next: "p1", searchedTo: Date.UTC(2026, 0, 2), missing: null },
    p1: { items: [alert("b")], ...END },
  });
  renderPage(<AlertsPage />);
  await userEvent.click(await screen.findByRole("button", { name: "Load older alerts" }));
  await waitFor(async () => expect(await items()).toHaveLength(1));
});

test("an alert shows its baseline, and the versions of its lists", async () => {
  const compared = alert("a", {
    triggeringValue: "124.5",
    violatedRule: { ...rule().document, limit: 3, baseline: { windowMinutes: 60 } },
    baseline: { value: "41.5", count: 12, windowStart: 1_699_996_400_000, windowEnd: 1_700_000_000_000 },
    lists: { mules: 7 },
  });
  answers({ first: { items: [compared], ...END } });
  renderPage(<AlertsPage />);
  const item = await screen.findByRole("listitem");
  expect(item).toHaveTextContent("124.50 EUR > 124.50 EUR (3 x 41.50) Amount 11.50 EUR");
  await userEvent.click(within(item).getByRole("button", { expanded: false }));
  for (const fact of [
    /Current value124.50 EUR/u,
    /Expected value41.50 EUR/u,
    /Factor3/u,
    /baseline12/u,
    /List versionsmules 7/u,
  ])
    expect(item).toHaveTextContent(fact);
});

test("an alert shows its conditions: value, limit and window, and the rules that they name", async () => {
  const document = rule().document;
  const combined = alert("a", {
    violatedRule: {
      ...document,
      conditions: [
        { aggregatorFunctionType: "COUNT", limitOperatorType: ">=", limit: 3, windowMinutes: 60 },
        { ruleId: 12 },
        { ruleId: 13 },
      ],
      require: "any",
    },
    conditions: [
      { value: "4", count: 4, windowStart: 1_699_996_400_000, holds: true },
      { value: "700.5", count: 2, holds: false, ruleId: 12, ruleVersion: 8 },
      { value: null, count: null, holds: false, ruleId: 13, ruleVersion: 9 },
    ],
  });
  answers({ first: { items: [combined], ...END } });
  renderPage(<AlertsPage />);
  await userEvent.click(within(await screen.findByRole("listitem")).getByRole("button", { expanded: false }));
  const table = within(await screen.findByRole("table", { name: "Conditions" }));
  const [, ...rows] = table.getAllByRole("row");
  expect(rows[0]).toHaveTextContent(/COUNT\(\)4 payments>= 3.*1 h, from.*4Holds/u);
  expect(rows[1]).toHaveTextContent("Rule 12700.52Does not hold");
  expect(rows[2]).toHaveTextContent("Rule 13not evaluatedDoes not hold");
  expect(table.getByRole("link", { name: "Rule 12" })).toHaveAttribute("href", "/rules/12?tab=versions&log=8");
});

test("an alert shows severity, labels, amounts with separators, and the rule in words", async () => {
  const large = alert("a", {
    triggeringValue: "67091.88",
    violatedRule: { ...rule().document, severity: "Critical", limit: 50_000, filter: "paymentType = 'CSH'" },
  });
  answers({ first: { items: [large], ...END } });
  renderPage(<AlertsPage />);
  const item = await screen.findByRole("listitem");
  expect(item).toHaveAttribute("data-severity", "critical");
  await waitFor(() => expect(item).toHaveTextContent("Payer 12"));
  expect(item).toHaveTextContent("67,091.88 EUR > 50,000.00 EUR");
  await userEvent.click(within(item).getByRole("button", { expanded: false }));
  expect(item).toHaveTextContent(
    "Alert when one payer has a total amount of more than 50,000 EUR within 20 minutes. Only payments where paymentType = 'CSH' count.",
  );
  expect(item).toHaveTextContent("Amount11.50 EUR");
});

test("f and n mark the alert to which j and k have moved", async () => {
  const marks: [string, unknown][] = [];
  server.use(
    http.put(`*${API}/alerts/:id/mark`, async ({ request, params }) => {
      const { verdict } = (await request.json()) as { verdict: Mark["verdict"] };
      marks.push([String(params["id"]), verdict]);
      return HttpResponse.json({ verdict, who: "ann", at: 1_700_000_000_000 });
    }),
  );
  answers({ first: { items: [alert("a"), alert("b", { key: { payeeId: 13 } })], ...END } });
  renderPage(<AlertsPage />);
  await screen.findAllByRole("listitem");
  await userEvent.keyboard("f");
  expect(marks, "no alert has the focus").toEqual([]);
  await userEvent.keyboard("jjf");
  const second = screen.getAllByRole("listitem")[1];
  await waitFor(() => expect(second).toHaveTextContent("Fraud"));
  await userEvent.keyboard("n");
  await waitFor(() => expect(second).toHaveTextContent("Not fraud"));
  expect(marks).toEqual([
    ["b", "FRAUD"],
    ["b", "NOT_FRAUD"],
  ]);
  await userEvent.click(screen.getByRole("button", { name: "Shortcuts" }));
  expect(await screen.findByText("Mark the alert as not fraud")).toBeVisible();
});

test("a snoozed alert leaves the list at once", async () => {
  answers({ first: { items: [alert("a")], ...END } });
  renderPage(<AlertsPage />);
  await userEvent.click(within(await screen.findByRole("listitem")).getByRole("button", { expanded: false }));
  await userEvent.click(await screen.findByRole("button", { name: "Snooze …" }));
  expect(await screen.findByRole("radio", { name: "Alerts for Payer 12" })).toBeChecked();
  answers({});
  await userEvent.click(await screen.findByRole("button", { name: "Snooze" }));
  expect(await screen.findByText(/No alerts yet/u)).toBeVisible();
  expect(snoozed).toMatchObject([{ ruleId: 1, key: { payeeId: 12 } }]);
});

test("a search is in the address, in the request and in the links of the export", async () => {
  const asked: string[] = [];
  server.use(
    http.get(`*${API}/alerts`, ({ request }) => {
      asked.push(new URL(request.url).search);
      return HttpResponse.json({ items: [], ...END });
    }),
  );
  renderPage(<AlertsPage />, { at: "/alerts?severity=high&since=24h&sort=amount" });
  expect(await screen.findByText("No matching alerts")).toBeVisible();
  await userEvent.type(screen.getByRole("searchbox", { name: "Search by ID" }), "1234");
  await waitFor(() => expect(asked.at(-1)).toBe("?text=1234&since=24h&severity=high&sort=amount&limit=50"));
  await userEvent.click(screen.getByRole("button", { name: "Export" }));
  const link = await screen.findByRole("menuitem", { name: "Parquet" });
  expect(link).toHaveAttribute(
    "href",
    `${API}/alerts/export?text=1234&since=24h&severity=high&sort=amount&format=parquet`,
  );
});

test("a search is saved under a name, and opens again", async () => {
  let saved: Record<string, unknown> = {};
  answers({});
  server.use(
    http.get(`*${API}/saved-searches`, () =>
      HttpResponse.json({ items: [{ name: "night", query: "sort=oldest", savedAt: 1 }] }),
    ),
    http.put(`*${API}/saved-searches/:name`, async ({ request, params }) => {
      saved = { name: params["name"], ...((await request.json()) as object) };
      return HttpResponse.json({ ...saved, savedAt: 2 });
    }),
  );
  renderPage(<AlertsPage />, { at: "/alerts?severity=high" });
  await userEvent.click(await screen.findByRole("button", { name: "Saved searches" }));
  await userEvent.type(await screen.findByLabelText("Save this search as"), "high ones");
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(saved).toEqual({ name: "high ones", query: "severity=high" }));
  await userEvent.click(screen.getByRole("link", { name: "night" }));
  expect(await screen.findByDisplayValue("Oldest first")).toBeVisible();
});

test.each([
  ["", "open 2"],
  ["?sort=amount", "open 1"],
])("the alerts of %j are read again after the stream has opened, if they are live", async (query, expected) => {
  let reads = 0;
  const stream = () =>
    new HttpResponse(new ReadableStream(), { headers: { "Content-Type": "text/event-stream" } }) as Response;
  server.use(
    http.get(`*${API}/alerts/stream`, stream),
    http.get(`*${API}/alerts`, () => {
      reads += 1;
      return HttpResponse.json({ items: [alert("a")], ...END });
    }),
  );
  const State = () => useStream().state;
  renderPage(
    <StreamProvider>
      <AlertsPage />
      <State />
    </StreamProvider>,
    { at: `/alerts${query}` },
  );
  await screen.findByText("open");
  expect(await items()).toHaveLength(1);
  await waitFor(() => expect(`open ${reads}`).toBe(expected));
});

test("the address names the open alert", async () => {
  answers({ first: { items: [alert("a"), alert("b")], ...END } });
  renderPage(
    <>
      <AlertsPage />
      <Address />
    </>,
    { at: "/alerts?ruleId=1&alert=b" },
  );
  const [, second] = await items();
  if (!second) throw new Error("two alerts");
  expect(within(second).getByRole("button", { expanded: true })).toBeVisible();
  expect(screen.queryByRole("region", { name: "Linked alert" })).toBeNull();
  await userEvent.click(within(second).getByRole("button", { expanded: true }));
  expect(screen.getByText("?ruleId=1")).toBeInTheDocument();
});

test("an alert of the address that the list lacks is shown above it", async () => {
  server.use(
    http.get(`*${API}/alerts`, ({ request }) => {
      const wanted = new URL(request.url).searchParams.get("alertId");
      return HttpResponse.json({ items: [alert(wanted ?? "a", { triggeringValue: wanted ? "77" : "1" })], ...END });
    }),
  );
  renderPage(<AlertsPage />, { at: "/alerts?alert=old" });
  const linked = within(await screen.findByRole("region", { name: "Linked alert" }));
  expect(await linked.findByText("77.00 EUR")).toBeVisible();
  await userEvent.click(linked.getByRole("button", { name: "Close" }));
  expect(screen.queryByRole("region", { name: "Linked alert" })).toBeNull();
});

test("a filter that only links set is shown, and can be removed", async () => {
  answers({ first: { items: [alert("a")], ...END } });
  renderPage(
    <>
      <AlertsPage />
      <Address />
    </>,
    { at: "/alerts?entity=payeeId%3A12&since=90d" },
  );
  expect(await screen.findByDisplayValue("Last 90 days")).toBeVisible();
  await userEvent.click(await screen.findByRole("button", { name: "Only Payer 12: remove this filter" }));
  expect(screen.getByText("?since=90d")).toBeInTheDocument();
});

function Address() {
  return <output>{useLocation().search}</output>;
}

test("an open alert has a link to its proof, and a corrected one to that of the correction", async () => {
  const added = { kind: "ADDED" as const, at: 1 };
  const retracted = { kind: "RETRACTED" as const, at: 1 };
  answers({
    first: {
      items: [
        { ...alert("a"), correction: retracted },
        { ...alert("b"), correction: added },
      ],
      ...END,
    },
  });
  renderPage(<AlertsPage />);
  const list = within(await screen.findByRole("list", { name: "Alerts" }));
  const hrefOf = (id: string) => `${API}/alerts/${id}/proof?position=${encodeURIComponent(alert(id).position)}`;
  const proof = () => list.getByRole("link", { name: "Download proof" });
  await userEvent.click(list.getByRole("button", { expanded: false, name: /Added later/u }));
  expect(proof()).toHaveAttribute("href", hrefOf("b"));
  await userEvent.click(list.getByRole("button", { expanded: false }));
  expect(proof()).toHaveAttribute("href", hrefOf("a"));
  const retraction = list.getByRole("link", { name: "Download proof of retraction" });
  expect(retraction).toHaveAttribute("href", `${hrefOf("a")}&retraction=true`);
});
