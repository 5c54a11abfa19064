// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { Route, Routes, useLocation } from "react-router";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { SearchFound } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { rule, SCHEMA } from "../testing/samples";
import { SearchButton } from "./SearchButton";

const NOTHING: SearchFound = { rules: [], cases: [], alerts: [], ids: [], decisions: [] };

const server = mockServer(
  http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  http.get(`*${API}/rules/names`, () => HttpResponse.json({ items: [rule()] })),
  http.get(`*${API}/search`, () => HttpResponse.json(NOTHING)),
);

function Address() {
  const { pathname, search } = useLocation();
  return <p>{pathname + search}</p>;
}

function render() {
  renderPage(
    <>
      <input aria-label="other" />
      <SearchButton />
      <Routes>
        <Route path="*" element={<Address />} />
      </Routes>
    </>,
  );
}

test("Ctrl K opens the search also while the user types, and the findings are links of all kinds", async () => {
  const found: SearchFound = {
    ...NOTHING,
    rules: [{ ruleId: 1, name: "Rapid transfers", state: "ACTIVE" }],
    alerts: [{ alertId: "a-1", ruleId: 1, key: { payeeId: 7 }, time: 1, shadow: false }],
    ids: [
      { field: "payeeId", hasAlerts: true },
      { field: "beneficiaryId", hasAlerts: false },
    ],
  };
  server.use(http.get(`*${API}/search`, () => HttpResponse.json(found)));
  render();
  await userEvent.click(screen.getByLabelText("other"));
  await userEvent.keyboard("{Control>}k{/Control}");
  await userEvent.type(await screen.findByRole("searchbox", { name: "Search everything" }), "7");
  expect(await screen.findByText("4 findings")).toBeVisible();
  expect(screen.getAllByRole("link").map((each) => each.getAttribute("href"))).toEqual([
    "/rules/1",
    "/entity?field=payeeId&value=7",
    "/alerts?alert=a-1",
    "/entity?field=beneficiaryId&value=7",
  ]);
  await userEvent.keyboard("{ArrowDown}{ArrowDown}");
  expect(screen.getByRole("link", { name: "Open Payer 7" })).toHaveFocus();
});

test("a payer without alerts is found, and Enter opens the page", async () => {
  server.use(
    http.get(`*${API}/search`, () => HttpResponse.json({ ...NOTHING, ids: [{ field: "payeeId", hasAlerts: false }] })),
  );
  render();
  await userEvent.click(screen.getByRole("button", { name: /^Search/u }));
  await userEvent.type(await screen.findByRole("searchbox", { name: "Search everything" }), "123");
  expect(await screen.findByRole("link", { name: "Open Payer 123" })).toBeVisible();
  expect(screen.getByText("No alerts")).toBeVisible();
  await screen.findByText("1 finding");
  await userEvent.keyboard("{Enter}");
  expect(await screen.findByText("/entity?field=payeeId&value=123")).toBeVisible();
});

test("a text without findings says so", async () => {
  render();
  await userEvent.click(screen.getByRole("button", { name: /^Search/u }));
  await userEvent.type(await screen.findByRole("searchbox", { name: "Search everything" }), "zzz");
  expect(await screen.findByText("Nothing found")).toBeVisible();
});
