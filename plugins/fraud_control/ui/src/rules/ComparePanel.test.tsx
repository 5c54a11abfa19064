// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ANALYST, detail } from "../testing/samples";
import { ComparePanel } from "./ComparePanel";

const SHADOW = detail({
  ruleId: 2,
  state: "SHADOW",
  document: { ruleId: 2, ruleState: "SHADOW", name: "b", limit: 30, rolloutPercent: 100 },
});
const LIVE = detail({
  ruleId: 1,
  state: "ACTIVE",
  document: { ruleId: 1, ruleState: "ACTIVE", name: "a", limit: 20, rolloutPercent: 5 },
});
const NONE = { payments: 0, fraud: 0, notFraud: 0 };

const sent: { text: string }[] = [];
mockServer(
  http.get(`*${API}/rules/names`, () =>
    HttpResponse.json({
      items: [
        { ruleId: 1, name: "a" },
        { ruleId: 2, name: "b" },
      ],
    }),
  ),
  http.get(`*${API}/rules/1`, () => HttpResponse.json(LIVE)),
  http.get(`*${API}/rules/2/comparison`, () =>
    HttpResponse.json({
      comparison: {
        since: 1_700_000_000_000,
        until: 1_700_000_000_000,
        both: { payments: 4, fraud: 2, notFraud: 1 },
        onlyThis: { payments: 1, fraud: 0, notFraud: 0 },
        onlyOther: NONE,
      },
    }),
  ),
  http.put(`*${API}/rules/1`, async ({ request }) => {
    sent.push((await request.json()) as { text: string });
    return HttpResponse.json(LIVE, { status: 202 });
  }),
);

test("a shadow rule is compared with the live rule, which can get its content", async () => {
  renderPage(<ComparePanel rule={SHADOW} me={ANALYST} />);
  await userEvent.click(await screen.findByRole("combobox", { name: "Rule" }));
  await userEvent.click(await screen.findByRole("option", { name: "1 a" }));
  const table = await screen.findByRole("table", { name: "Payments of rules 2 and 1" });
  const rows = within(table).getAllByRole("row");
  expect(rows.map((row) => row.textContent).slice(-3)).toEqual([
    "Both rules4212/325 % unlabelled",
    "Only rule 2100–100 % unlabelled",
    "Only rule 1000–",
  ]);
  await userEvent.click(await screen.findByRole("button", { name: "Request promotion to rule 1" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.type(dialog.getByRole("textbox"), "finds more");
  await userEvent.click(dialog.getByRole("button", { name: "Request promotion to rule 1" }));
  await waitFor(() => expect(sent).toHaveLength(1));
  expect(JSON.parse(sent[0]?.text ?? "")).toEqual({
    ruleId: 1,
    ruleState: "ACTIVE",
    name: "a",
    limit: 30,
    rolloutPercent: 5,
  });
});
