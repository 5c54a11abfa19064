// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import AuditPage from "./AuditPage";

const VERIFIED = { whole: true, rows: 1_000, total: 1_234, brokenAt: null, head: "1", verifiedAt: 1_700_000_000_000 };

const server = mockServer(
  http.get(`*${API}/audit/verify`, () => HttpResponse.json(VERIFIED)),
  http.get(`*${API}/rules/names`, () => HttpResponse.json({ items: [{ ruleId: 17, name: "Mule fan-out" }] })),
);

const ROW = {
  seq: 1_234,
  at: 1_700_000_000_000,
  who: "ann",
  action: "rule.state",
  subject: "rule 1",
  ruleId: 1,
  listName: null,
  mapName: null,
  program: null,
  before: null,
  after: null,
  previousHash: "0",
  hash: "1",
};

test.each([
  ["mules", "listName=mules"],
  ["map limits", "mapName=limits"],
  ["17", "ruleId=17"],
  ["No list", ""],
])("the filter %s asks for %s", async (text, wanted) => {
  const asked: string[] = [];
  server.use(
    http.get(`*${API}/audit`, ({ request }) => {
      asked.push(new URL(request.url).search);
      return HttpResponse.json({ items: [], next: null });
    }),
  );
  renderPage(<AuditPage />);
  await userEvent.type(screen.getByRole("searchbox", { name: "Rule ID, list or map" }), text);
  await expect.poll(() => asked.at(-1)).toBe(`?limit=100${wanted && `&${wanted}`}`);
});

test("the filters of the address reach the list and the export, and actions have names", async () => {
  server.use(
    http.get(`*${API}/audit`, ({ request }) => {
      const { searchParams } = new URL(request.url);
      const isWanted = searchParams.get("user") === "ann" && searchParams.get("action") === "rule";
      const certificate = { ...ROW, seq: 1_233, action: "person.certificate", subject: "person id:5e" };
      return HttpResponse.json({ items: isWanted ? [ROW, certificate] : [], next: null });
    }),
  );
  renderPage(<AuditPage />, { at: "/audit?user=ann&action=rule&since=24h" });
  expect(await screen.findByText("Change state of")).toHaveAttribute("title", "rule.state");
  expect(screen.getByRole("link", { name: "Download certificate" })).toHaveAttribute(
    "href",
    `${API}/erasures/certificates/1233`,
  );
  await userEvent.click(screen.getByRole("button", { name: "Export" }));
  expect(await screen.findByRole("menuitem", { name: "CSV" })).toHaveAttribute(
    "href",
    `${API}/audit/export?user=ann&action=rule&since=24h`,
  );
});

test.each([
  [{ limit: 3 }, { limit: 6 }, "limit 3 → 6"],
  [null, { a: 1, b: 2, c: 3, d: 4, e: 5 }, "a 1, b 2, c 3, 2 more"],
  [{ rule: { limit: 3 } }, { rule: {} }, "rule.limit 3 → –"],
  [null, { alerts: ["50f6cafe", "60f6cafe"], outcome: "FRAUD" }, "alerts 2 values, outcome FRAUD"],
  [{ outcome: null }, { outcome: "FRAUD" }, "outcome FRAUD"],
  [null, { comment: "a comment of more than thirty-two characters" }, "comment a comment of more than thirty-t…"],
])("a row shows the change from %o to %o", async (before, after, text) => {
  server.use(http.get(`*${API}/audit`, () => HttpResponse.json({ items: [{ ...ROW, before, after }], next: null })));
  renderPage(<AuditPage />);
  expect(await screen.findByText(text)).toBeVisible();
});

test("a row names the program that made the change", async () => {
  const row = { ...ROW, program: "nightly" };
  server.use(http.get(`*${API}/audit`, () => HttpResponse.json({ items: [row], next: null })));
  renderPage(<AuditPage />);
  expect(await screen.findByText("program nightly")).toBeVisible();
});

test("a request names its rule, and a row has a date", async () => {
  const row = { ...ROW, action: "approval.request", subject: "approval 5", ruleId: 17, at: Date.now() };
  server.use(http.get(`*${API}/audit`, () => HttpResponse.json({ items: [row], next: null })));
  renderPage(<AuditPage />);
  expect(await screen.findByRole("link", { name: "rule 17 Mule fan-out" })).toHaveAttribute("href", "/rules/17");
  expect(screen.getByRole("table", { name: "Audit log" }).querySelector("time")).toHaveTextContent(/\d [A-Z][a-z]+,/u);
});

test.each([
  [VERIFIED, "Intact: 1,000 of 1,234 rows"],
  [{ ...VERIFIED, rows: 1_234 }, "Intact: 1,234 rows"],
  [{ ...VERIFIED, whole: false, brokenAt: 7 }, "Broken at row 7"],
  [{ ...VERIFIED, rows: 0, verifiedAt: null }, "Verification starts within a minute"],
])("the page shows the verified rows %#", async (state, text) => {
  server.use(
    http.get(`*${API}/audit`, () => HttpResponse.json({ items: [], next: null })),
    http.get(`*${API}/audit/verify`, () => HttpResponse.json(state)),
  );
  renderPage(<AuditPage />);
  expect(await screen.findByText(text)).toBeVisible();
});
