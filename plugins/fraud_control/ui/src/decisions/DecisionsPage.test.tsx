// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { PaymentDecision } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ANALYST, rule } from "../testing/samples";
import DecisionsPage from "./DecisionsPage";

const server = mockServer(
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/rules/names`, () => HttpResponse.json({ items: [rule()] })),
);

function decision(members: Partial<PaymentDecision> = {}): PaymentDecision {
  return {
    transactionId: "4711",
    score: 110,
    outcome: "DECLINE",
    alerts: [
      { ruleId: 1, ruleVersion: 7, alertId: "a", weight: 60 },
      { ruleId: 9, ruleVersion: 8, alertId: "b", weight: 50 },
    ],
    eventTime: 1_700_000_000_000,
    appendTime: 1_700_000_000_100,
    corrected: null,
    ...members,
  };
}

function answers(pages: Record<string, object>) {
  server.use(
    http.get(`*${API}/decisions`, ({ request }) => {
      const { searchParams } = new URL(request.url);
      const name = searchParams.get("outcome") ?? searchParams.get("before") ?? "first";
      return HttpResponse.json(pages[name] ?? { items: [], next: null });
    }),
  );
}

const rows = async () =>
  within(await screen.findByRole("table", { name: "Decisions" }))
    .getAllByRole("row")
    .slice(1);

test("a decision shows its outcome, its score and the weights of its rules", async () => {
  answers({ first: { items: [decision()], next: null } });
  renderPage(<DecisionsPage />);
  expect(await screen.findByRole("link", { name: "Rule number 1" })).toBeVisible();
  expect((await rows())[0]).toHaveTextContent(/4711Decline *110Rule number 1 \(60\), Rule 9 \(50\)/u);
  const proof = screen.getByRole("link", { name: "Download proof: decision, payment 4711" });
  expect(proof).toHaveAttribute("href", `${API}/decisions/proof?transaction=4711`);
});

test("a corrected decision shows the corrected score and the original one", async () => {
  answers({ first: { items: [decision({ corrected: { score: 50, outcome: "REVIEW" } })], next: null } });
  renderPage(<DecisionsPage />);
  await waitFor(async () => expect((await rows())[0]).toHaveTextContent(/Review was Decline, 110 *50/u));
});

test("the list continues, and shows one outcome", async () => {
  answers({
    first: { items: [decision()], next: 5 },
    "5": { items: [decision({ transactionId: "4712", appendTime: 2 })], next: null },
    NOTE: { items: [decision({ transactionId: "4713", outcome: "NOTE" })], next: null },
  });
  renderPage(<DecisionsPage />);
  await userEvent.click(await screen.findByRole("button", { name: "Load older decisions" }));
  await waitFor(async () => expect(await rows()).toHaveLength(2));
  await userEvent.click(screen.getByRole("combobox", { name: "Outcome" }));
  await userEvent.click(await screen.findByRole("option", { name: "Note" }));
  await waitFor(async () => expect((await rows()).map((row) => row.textContent).join()).toContain("4713"));
  expect(await rows()).toHaveLength(1);
});
