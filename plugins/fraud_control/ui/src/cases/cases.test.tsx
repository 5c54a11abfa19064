// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { Route, Routes } from "react-router";
import { afterEach, expect, test } from "vitest";
import { API } from "../api/http";
import type { CaseDetail, CaseOverview, PaymentDecision } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { alert, ANALYST, rule, SCHEMA, VIEWER } from "../testing/samples";
import { actionText } from "./CaseHistory";
import CasePage from "./CasePage";
import { caseAddress, caseFilterOf, caseQuery } from "./caseQueue";
import CasesPage from "./CasesPage";

let stored: CaseDetail = caseDetail(5);
let sent: { path: string; body: unknown; revision: string | null }[] = [];

const server = mockServer(
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  http.get(`*${API}/rules/names`, () => HttpResponse.json({ items: [rule()] })),
  http.get(`*${API}/alerts`, () => HttpResponse.json({ items: [alert("b"), alert("a")], next: null })),
  http.get(`*${API}/cases/assignees`, () => HttpResponse.json({ items: ["ann", "ben", "zoe"] })),
  http.get(`*${API}/cases/:id/overview`, () => HttpResponse.json(OVERVIEW)),
  http.get(`*${API}/cases/5`, () => HttpResponse.json(stored)),
  http.get(`*${API}/cases`, ({ request }) => {
    const params = new URL(request.url).searchParams;
    if (params.get("alertId") !== null || params.has("before")) return HttpResponse.json({ items: [], next: null });
    if (params.has("after")) return HttpResponse.json({ items: [caseDetail(6)], next: null });
    return HttpResponse.json({ items: [caseDetail(5), caseDetail(6)], next: null });
  }),
);

afterEach(() => {
  stored = caseDetail(5);
  sent = [];
  window.localStorage.clear();
});

function caseDetail(caseId: number, members: Partial<CaseDetail> = {}): CaseDetail {
  return {
    caseId,
    entityField: "payeeId",
    entityValue: String(caseId * 100),
    status: "OPEN",
    outcome: null,
    assignee: null,
    severity: "high",
    alerts: 2,
    firstAlert: 1_700_000_000_000,
    lastAlert: 1_700_000_500_000,
    revision: 3,
    updatedAt: null,
    updatedBy: null,
    fraud: 0,
    notFraud: 0,
    unreviewed: 2,
    retracted: 0,
    expiresAt: null,
    rules: [
      { ruleId: 1, alerts: 1 },
      { ruleId: 2, alerts: 1 },
    ],
    events: [],
    sameEntity: [],
    handedBy: null,
    amount: "99.9",
    dueAt: null,
    ...members,
  };
}

const DECISION: PaymentDecision = {
  transactionId: "99",
  score: 85,
  outcome: "DECLINE",
  alerts: [],
  eventTime: 1_700_000_000_000,
  appendTime: 1_700_000_000_000,
  corrected: null,
};

const OVERVIEW: CaseOverview = {
  field: "payeeId",
  value: 500,
  payments: 2,
  complete: true,
  amountField: "paymentAmount",
  amount: "1250.5",
  newest: [{ transactionId: 99, payeeId: 500, paymentAmount: 1_200 }],
  decisions: [DECISION],
  decision: DECISION,
  lists: ["watched"],
  related: [caseDetail(7, { entityField: "beneficiaryId", status: "CLOSED", outcome: "FRAUD" })],
};

/** Records the changes that the page sends, and answers them. */
function accept(method: "put" | "post", path: string, body: object, status = 200) {
  server.use(
    http[method](`*${API}${path}`, async ({ request }) => {
      const revision = request.headers.get("If-Match");
      if ("caseId" in body) stored = body as CaseDetail;
      sent.push({ path: new URL(request.url).pathname.replace(API, ""), body: await request.json(), revision });
      return HttpResponse.json(body, { status });
    }),
  );
}

function renderCase(at = "/cases/5") {
  renderPage(
    <Routes>
      <Route path="cases" element={<CasesPage />} />
      <Route path="cases/:id" element={<CasePage />} />
    </Routes>,
    { at },
  );
}

test("the filter is in the address, and the queue has open cases without one", () => {
  const none = caseFilterOf(new URLSearchParams());
  expect(caseAddress(none)).toBe("");
  expect(caseQuery(none, "ann")).toBe("status=OPEN&status=IN_WORK&sort=severity");
  const mine = { ...none, status: "ANY", owner: "mine", severity: ["high", "low"], text: "42" };
  expect(caseQuery(mine, "ann")).toBe("assignee=ann&text=42&sort=severity&severity=high&severity=low");
  expect(caseFilterOf(new URLSearchParams(caseAddress(mine)))).toEqual(mine);
  const late = { ...none, status: "OVERDUE", owner: "handed" };
  expect(caseQuery(late, "ann")).toBe("status=OPEN&status=IN_WORK&overdue=true&assignee=ann&handed=true&sort=severity");
});

test("j and k move between the cases, and Enter opens one", async () => {
  renderCase("/cases?owner=unassigned");
  const first = await screen.findByText("Payer 500");
  expect(first).toHaveAttribute("href", "/cases/5?owner=unassigned");
  expect(screen.getByRole("row", { name: /Payer 500/u })).toHaveTextContent("Rule number 1 (1), Rule 2 (1)");
  await userEvent.keyboard("j");
  expect(first).toHaveFocus();
  await userEvent.keyboard("j");
  expect(screen.getByRole("link", { name: "Payer 600" })).toHaveFocus();
  await userEvent.keyboard("k{Enter}");
  expect(await screen.findByRole("heading", { level: 1, name: "Payer 500" })).toBeVisible();
});

test("all cases of a filter are closed with an outcome that the user chooses, and reopened by an undo", async () => {
  server.use(
    http.get(`*${API}/cases/matching`, () => HttpResponse.json({ count: 5048, more: false })),
    http.post(`*${API}/cases/close`, async ({ request }) => {
      sent.push({ path: new URL(request.url).search, body: await request.json(), revision: null });
      return HttpResponse.json({ cases: 5048, marked: 5048, remaining: 0, auditRow: 7 });
    }),
    http.post(`*${API}/bulk-changes/7/undo`, () =>
      HttpResponse.json({ cases: 5048, marked: 5048, remaining: 0, auditRow: 8 }),
    ),
  );
  renderCase("/cases?ruleId=1");
  await userEvent.click(await screen.findByRole("button", { name: "Close all that match …" }));
  const send = await screen.findByRole("button", { name: "Close 5,048 cases" });
  expect(send).toBeDisabled();
  await userEvent.click(screen.getByRole("radio", { name: "Not fraud" }));
  await userEvent.click(screen.getByRole("checkbox", { name: "Mark their unreviewed alerts as not fraud" }));
  await userEvent.click(send);
  expect(await screen.findByText("5,048 cases closed, 5,048 alerts marked.")).toBeVisible();
  expect(sent).toEqual([
    {
      path: expect.stringContaining("ruleId=1") as string,
      body: { outcome: "NOT_FRAUD", marks: true, comment: "" },
      revision: null,
    },
  ]);
  await userEvent.click(screen.getByRole("button", { name: "Undo" }));
  expect(await screen.findByText("Undone: 5,048 cases reopened, 5,048 marks removed.")).toBeVisible();
});

test("f and n mark the unreviewed alerts of the case that has the focus, and of an open case", async () => {
  accept("post", "/cases/5/marks", { marked: 2, unchanged: 0, remaining: 0, unknown: [] });
  renderCase("/cases");
  await screen.findByText("Payer 500");
  await userEvent.keyboard("f");
  expect(sent).toEqual([]);
  await userEvent.keyboard("jf");
  await waitFor(() => expect(sent).toHaveLength(1));
  expect(sent).toMatchObject([{ path: "/cases/5/marks", body: { verdict: "FRAUD" } }]);
  await userEvent.keyboard("{Enter}");
  await screen.findByRole("heading", { level: 1 });
  await screen.findAllByRole("listitem");
  await userEvent.keyboard("n");
  await waitFor(() => expect(sent).toHaveLength(2));
  expect(sent[1]).toMatchObject({ body: { verdict: "NOT_FRAUD" } });
});

test("single-key shortcuts can be turned off", async () => {
  renderCase("/cases");
  const first = await screen.findByText("Payer 500");
  await userEvent.click(screen.getByRole("button", { name: "Shortcuts" }));
  await userEvent.click(await screen.findByRole("switch", { name: "Single-key shortcuts" }));
  await userEvent.keyboard("{Escape}");
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await userEvent.keyboard("j");
  expect(first).not.toHaveFocus();
});

test("j opens the next case of the queue", async () => {
  server.use(http.get(`*${API}/cases/6`, () => HttpResponse.json(caseDetail(6))));
  renderCase("/cases/5?owner=unassigned");
  expect(await screen.findByRole("link", { name: "Next case" })).toHaveAttribute("href", "/cases/6?owner=unassigned");
  await userEvent.keyboard("j");
  expect(await screen.findByRole("heading", { level: 1, name: "Payer 600" })).toBeVisible();
});

test("a change names the revision that the user has read, and a conflict loads the case again", async () => {
  renderCase();
  accept("put", "/cases/5/assignee", { title: "Changed by another user", detail: "" }, 412);
  await userEvent.click(await screen.findByRole("button", { name: "Assign to me" }));
  await waitFor(() => expect(sent).toHaveLength(1));
  expect(sent[0]).toEqual({ path: "/cases/5/assignee", body: { assignee: "ann" }, revision: '"3"' });
  accept("put", "/cases/5/assignee", caseDetail(5, { assignee: "ann", revision: 4 }));
  await userEvent.click(await screen.findByRole("button", { name: "Assign to me" }));
  expect(await screen.findByText("Assigned to ann")).toBeVisible();
});

test("a case is handed over to another user with a note by keyboard, and assigned to nobody", async () => {
  const event = {
    eventId: 1,
    at: 1,
    who: "ann",
    action: "assign",
    detail: { assignee: "zoe" },
    comment: "call her",
  } as const;
  const handed = { assignee: "zoe", handedBy: "ann", events: [event], revision: 4 };
  accept("put", "/cases/5/assignee", caseDetail(5, handed));
  renderCase();
  const assignee = await screen.findByRole("combobox", { name: "Assignee" });
  expect(assignee).toHaveValue("Unassigned");
  await userEvent.clear(assignee);
  await userEvent.type(assignee, "zo{ArrowDown}{Enter}");
  expect(await screen.findByRole("textbox", { name: "Note" })).toHaveFocus();
  await userEvent.keyboard("call her{Enter}");
  expect(await screen.findByText("Assigned to zoe")).toBeVisible();
  expect(screen.getByText("Handed over by ann: call her")).toBeVisible();
  expect(assignee).toHaveValue("zoe");
  accept("put", "/cases/5/assignee", caseDetail(5, { revision: 5 }));
  await userEvent.click(assignee);
  await userEvent.click(await screen.findByRole("option", { name: "Unassigned" }));
  await waitFor(() => expect(assignee).toHaveValue("Unassigned"));
  expect(sent.map(({ body }) => body)).toEqual([{ assignee: "zoe", comment: "call her" }, { assignee: null }]);
});

test("the page shows the amount at stake, the newest payments with their decisions, the lists and other cases", async () => {
  renderCase();
  const payments = within(await screen.findByRole("table", { name: "Newest payments" }));
  expect(payments.getByText("1,200.00 EUR")).toBeVisible();
  expect(payments.getByText("85")).toBeVisible();
  expect(screen.getByText("1,250.50 EUR")).toBeVisible();
  expect(screen.getByText("2 payments with alerts")).toBeVisible();
  expect(screen.getByRole("link", { name: "watched" })).toHaveAttribute("href", "/lists/watched");
  const others = screen.getByRole("table", { name: "Cases of other IDs in these payments" });
  expect(within(others).getByRole("row", { name: /Beneficiary 700/u })).toHaveTextContent("Closed: fraud");
});

test("the newest payments without alerts are read on demand", async () => {
  const payments = [{ transactionId: 100, payeeId: 500, paymentAmount: 3 }];
  server.use(http.get(`*${API}/entity`, () => HttpResponse.json({ payments, decisions: [] })));
  renderCase();
  await userEvent.click(await screen.findByRole("button", { name: "Also without alerts" }));
  expect(await screen.findByText("3.00 EUR")).toBeVisible();
});

test("a case about a masked id has no way to the page of the id", async () => {
  stored = caseDetail(5, { entityValue: "••••0500" });
  renderCase();
  expect(await screen.findByRole("table", { name: "Newest payments" })).toBeVisible();
  expect(screen.queryByRole("link", { name: "Entity page" })).toBeNull();
  expect(screen.queryByRole("button", { name: "Also without alerts" })).toBeNull();
});

test("a case is due, or overdue, and shows its amount", async () => {
  const late = caseDetail(6, { dueAt: Date.now() - 3 * 3_600_000, assignee: "ann", handedBy: "ben" });
  const items = [caseDetail(5, { dueAt: Date.now() + 3.5 * 3_600_000 }), late];
  server.use(http.get(`*${API}/cases`, () => HttpResponse.json({ items, next: null })));
  renderCase("/cases");
  expect(await screen.findByRole("row", { name: /Payer 500/u })).toHaveTextContent(/in 4 h|in 3 h/u);
  expect(screen.getByRole("row", { name: /Payer 600/u })).toHaveTextContent(/overdue 3 h.*ann, from ben.*99.90 EUR/u);
});

test("an assignee without a role stays visible", async () => {
  stored = caseDetail(5, { assignee: "former" });
  renderCase();
  expect(await screen.findByRole("combobox", { name: "Assignee" })).toHaveValue("former");
});

test("a case closes with its unreviewed alerts marked, up to the newest alert on the page", async () => {
  accept("post", "/cases/5/marks", { marked: 2, unchanged: 0, remaining: 0, unknown: [] });
  accept("put", "/cases/5/status", caseDetail(5, { status: "CLOSED", outcome: "NOT_FRAUD", revision: 4 }));
  renderCase();
  await screen.findAllByRole("listitem");
  await userEvent.keyboard("c");
  const dialog = await screen.findByRole("dialog");
  expect(within(dialog).getByRole("button", { name: "Close case" }), "no outcome is preselected").toBeDisabled();
  await userEvent.click(within(dialog).getByRole("radio", { name: "Not fraud" }));
  const marks = within(dialog).getByRole("checkbox", { name: "Mark the 2 unreviewed alerts as not fraud" });
  expect(marks).not.toBeChecked();
  await userEvent.click(marks);
  await userEvent.type(within(dialog).getByRole("textbox", { name: "Comment" }), "salary");
  await userEvent.click(within(dialog).getByRole("button", { name: "Close case" }));
  expect(await screen.findByText("Closed: not fraud")).toBeVisible();
  expect(sent.map(({ path, body }) => [path, body])).toEqual([
    ["/cases/5/marks", { verdict: "NOT_FRAUD", through: "0-b" }],
    ["/cases/5/status", { status: "CLOSED", outcome: "NOT_FRAUD", through: "0-b", comment: "salary" }],
  ]);
});

test("a selection of alerts is marked at once", async () => {
  accept("post", "/alerts/marks", { marked: 1, unchanged: 0, remaining: 0, unknown: [] });
  renderCase();
  const boxes = await screen.findAllByRole("checkbox", { name: /Select alert/u });
  for (const box of boxes.slice(1)) await userEvent.click(box);
  expect(screen.getByText("1 selected")).toBeVisible();
  await userEvent.click(screen.getByRole("button", { name: "Mark as fraud" }));
  await waitFor(() => expect(screen.queryByText("1 selected")).toBeNull());
  expect(sent[0]?.body).toEqual({ alertIds: ["a"], verdict: "FRAUD" });
});

test("a viewer sees a case without its actions", async () => {
  server.use(http.get(`*${API}/me`, () => HttpResponse.json(VIEWER)));
  renderCase();
  expect(await screen.findByRole("link", { name: "Next case" })).toBeVisible();
  for (const name of [/Assign/u, /Close case/u, /Start work/u, /Mark/u, /Add comment/u]) {
    expect(screen.queryByRole("button", { name })).toBeNull();
  }
  expect(screen.queryByRole("checkbox")).toBeNull();
  expect(screen.queryByRole("combobox", { name: "Assignee" })).toBeNull();
});

test("events are described in words", () => {
  expect(actionText({ action: "assign", detail: { assignee: null } })).toBe("removed the assignee");
  expect(actionText({ action: "status", detail: { status: "CLOSED", outcome: "FRAUD" } })).toBe("closed as fraud");
  expect(actionText({ action: "status", detail: { status: "IN_WORK", outcome: null } })).toBe(
    "set the status to in work",
  );
  expect(actionText({ action: "mark", detail: { verdict: "FRAUD", alerts: 12 } })).toBe("marked as fraud: 12 alerts");
});
