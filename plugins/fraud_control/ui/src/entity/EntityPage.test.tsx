// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { Entity } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { alert, ANALYST, rule, SCHEMA } from "../testing/samples";
import EntityPage from "./EntityPage";

const AT = 1_700_000_000_000;
let asked: string[] = [];
let added: unknown = null;

function aggregate(members: Partial<Entity["aggregates"][number]> = {}): Entity["aggregates"][number] {
  return {
    ruleId: 1,
    ruleVersion: 3,
    state: "ACTIVE",
    name: "Rapid transfers",
    says: "Alert when one payer has a total amount of more than 40 EUR within 20 minutes.",
    key: { payeeId: 12 },
    value: "30.5",
    unit: "EUR",
    windowCount: 2,
    windowMs: 1_200_000,
    windowCalendar: "",
    windowOverMs: AT + 1_200_001,
    windowComplete: true,
    eventTime: AT,
    transactionId: 2,
    operator: ">",
    limit: "40",
    limitIs: "VALUE",
    baseline: null,
    bound: "40",
    share: 0.7625,
    outcome: "none",
    warmUp: false,
    ...members,
  };
}

function entity(members: Partial<Entity> = {}): Entity {
  return {
    field: "payeeId",
    value: 12,
    since: AT,
    reached: AT,
    notes: [],
    count: 2,
    amountField: "paymentAmount",
    periodMs: 86_400_000,
    periods: [{ at: AT, count: 2, amount: "30.50" }],
    payments: [
      { transactionId: 2, payeeId: 12, beneficiaryId: 7, paymentAmount: 20 },
      { transactionId: 1, payeeId: 12, beneficiaryId: 7, paymentAmount: 10.5 },
    ],
    counterparties: [{ field: "beneficiaryId", value: 7, count: 2, amount: "30.50", last: AT }],
    aggregates: [aggregate()],
    restrictions: [
      { alertId: "r1", ruleId: 1, key: { payeeId: 12 }, since: AT, lifted: null },
      { alertId: "r2", ruleId: 1, key: { payeeId: 12 }, since: AT, lifted: AT + 1 },
    ],
    otherRules: [{ ruleId: 9, name: "Mules", fields: ["beneficiaryId"] }],
    decisions: [],
    lists: ["watched"],
    ...members,
  };
}

const server = mockServer(
  http.get(`*${API}/cases`, () => HttpResponse.json({ items: [], next: null })),
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  http.get(`*${API}/rules/names`, () => HttpResponse.json({ items: [rule()] })),
  http.get(`*${API}/alerts`, ({ request }) => {
    asked.push(new URL(request.url).search);
    return HttpResponse.json({ items: [alert("a")], next: null, searchedTo: null, missing: null });
  }),
  http.get(`*${API}/entity`, () => HttpResponse.json(entity())),
);

/** The page has many parts, so its first rendering can take long on a loaded machine. */
const SLOW = { timeout: 10_000 };
const ADDRESS = { at: "/entity?field=payeeId&value=12&days=7" };

test("the page shows the rules' aggregates, the lists, the counterparties and the alerts", async () => {
  asked = [];
  renderPage(<EntityPage />, ADDRESS);
  const rules = within(await screen.findByRole("table", { name: "Rules" }, SLOW));
  expect(rules.getByText("30.50 EUR")).toBeVisible();
  expect(rules.getByText("> 40.00 EUR")).toBeVisible();
  expect(rules.getByText(/^Alert when one payer has a total amount of more than 40 EUR/u)).toBeVisible();
  expect(rules.getByText("76 %")).toBeVisible();
  expect(screen.getByRole("link", { name: "9 Mules" })).toBeVisible();
  expect(screen.getByRole("link", { name: "watched" })).toHaveAttribute("href", "/lists/watched");
  const other = within(screen.getByRole("table", { name: "Counterparties" })).getByRole("link", { name: "7" });
  expect(other).toHaveAttribute("href", "/entity?field=beneficiaryId&value=7");
  expect(await within(screen.getByRole("list", { name: "Alerts" })).findAllByRole("listitem")).toHaveLength(1);
  expect(asked[0]).toContain("entity=payeeId%3A12");
  const restrictions = within(screen.getByRole("table", { name: "Restrictions" }));
  expect(restrictions.getByText("In force")).toBeVisible();
  expect(restrictions.getByText(/^Lifted/u)).toBeVisible();
  const [proof] = restrictions.getAllByRole("link", { name: "Download proof: restriction by rule 1" });
  expect(proof).toHaveAttribute("href", `${API}/alerts/r1/proof`);
  expect(screen.queryByText("Incomplete payments")).toBeNull();
});

test("a rule with a baseline shows what it compares", async () => {
  const aggregates = [
    aggregate({ limit: "3", limitIs: "FACTOR", baseline: "1041.5", bound: "3124.5" }),
    aggregate({ ruleId: 2, limit: "3", limitIs: "DEVIATIONS", baseline: "41.5", bound: "54.2" }),
    aggregate({ ruleId: 3, operator: "<", limit: "3", limitIs: "DEVIATIONS", baseline: "41.5", bound: "28.8" }),
    aggregate({ ruleId: 4, limit: "3", limitIs: "DEVIATIONS", baseline: null, bound: null, share: null }),
  ];
  server.use(http.get(`*${API}/entity`, () => HttpResponse.json(entity({ aggregates }))));
  renderPage(<EntityPage />, ADDRESS);
  const rules = within(await screen.findByRole("table", { name: "Rules" }, SLOW));
  expect(rules.getByText("> 3 x 1,041.50 (3,124.50 EUR)")).toBeVisible();
  expect(rules.getByText("> 41.50 + 3 deviations (54.20 EUR)")).toBeVisible();
  expect(rules.getByText("< 41.50 - 3 deviations (28.80 EUR)")).toBeVisible();
  expect(rules.getByText("Too few payments before")).toBeVisible();
});

test("missing payments are announced", async () => {
  server.use(
    http.get(`*${API}/entity`, () =>
      HttpResponse.json(entity({ reached: AT + 5, notes: ["Only the newest 2 payments of the topic were searched."] })),
    ),
  );
  renderPage(<EntityPage />, ADDRESS);
  expect(await screen.findByText("Only the newest 2 payments of the topic were searched.")).toBeVisible();
});

test("an analyst adds the value to a list", async () => {
  server.use(
    http.get(`*${API}/lists`, () =>
      HttpResponse.json({
        items: [
          { name: "mules", type: "long", rules: [] },
          { name: "watched", type: "long", rules: [{ ruleId: 1, name: "Mules", state: "ACTIVE" }] },
          { name: "names", type: "string", rules: [] },
        ],
      }),
    ),
    http.post(`*${API}/lists/mules/changes`, async ({ request }) => {
      added = await request.json();
      return HttpResponse.json({});
    }),
  );
  renderPage(<EntityPage />, ADDRESS);
  await userEvent.click(await screen.findByRole("button", { name: "Add to list …" }, SLOW));
  const [list = document.body] = await screen.findAllByLabelText("List");
  await userEvent.click(list);
  await userEvent.click(await screen.findByRole("option", { name: "mules" }));
  expect(screen.queryByRole("option", { name: "names" })).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Add" }));
  await waitFor(() => expect(added).toMatchObject({ operation: "ADD", values: ["12"] }));
});

test("a change of the list of an active rule asks for its reason", async () => {
  const rules = [{ ruleId: 1, name: "Mules", state: "ACTIVE" }];
  server.use(
    http.get(`*${API}/lists`, () => HttpResponse.json({ items: [{ name: "mules", type: "long", rules }] })),
    http.post(`*${API}/lists/mules/changes`, async ({ request }) => {
      added = await request.json();
      return HttpResponse.json({}, { status: 202 });
    }),
  );
  added = null;
  renderPage(<EntityPage />, ADDRESS);
  await userEvent.click(await screen.findByRole("button", { name: "Add to list …" }, SLOW));
  const [list = document.body] = await screen.findAllByLabelText("List");
  await userEvent.click(list);
  await userEvent.click(await screen.findByRole("option", { name: "mules" }));
  await userEvent.click(screen.getByRole("button", { name: "Request change" }));
  expect(added).toBeNull();
  await userEvent.type(screen.getByRole("textbox", { name: "Reason" }), "case 12");
  await userEvent.click(screen.getByRole("button", { name: "Request change" }));
  await waitFor(() => expect(added).toMatchObject({ operation: "ADD", values: ["12"], comment: "case 12" }));
});
