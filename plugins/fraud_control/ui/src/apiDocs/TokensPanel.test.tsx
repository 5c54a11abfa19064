// @vitest-environment jsdom
import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { ProgramToken } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ANALYST } from "../testing/samples";
import { TokensPanel } from "./TokensPanel";

const TOKEN: ProgramToken = {
  id: "0123456789ab",
  owner: "ann",
  name: "nightly",
  role: "analyst",
  createdAt: 1_700_000_000_000,
  expiresAt: 1_700_086_400_000,
};

const server = mockServer(
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/tokens`, () => HttpResponse.json({ items: [TOKEN] })),
);

test("a token is created with a role of the user, and its secret shown", async () => {
  let body: unknown = null;
  server.use(
    http.post(`*${API}/tokens`, async ({ request }) => {
      body = await request.json();
      return HttpResponse.json({ token: TOKEN, secret: "fraud_secret" }, { status: 201 });
    }),
  );
  renderPage(<TokensPanel />);
  await userEvent.click(await screen.findByRole("button", { name: "New token" }));
  await userEvent.type(await screen.findByRole("textbox", { name: "Name of the program" }), "nightly");
  await userEvent.click(screen.getByRole("combobox", { name: "Highest role" }));
  expect(screen.getAllByRole("option").map((each) => each.textContent)).toEqual(["viewer", "analyst"]);
  await userEvent.click(screen.getByRole("option", { name: "analyst" }));
  await userEvent.click(screen.getByRole("button", { name: "Create" }));
  expect(await screen.findByText("fraud_secret")).toBeVisible();
  expect(body).toEqual({ name: "nightly", role: "analyst", expiresInDays: 90 });
});

test("an expired token is marked, and a token is revoked", async () => {
  let revoked = false;
  server.use(
    http.delete(`*${API}/tokens/${TOKEN.id}`, () => {
      revoked = true;
      return new HttpResponse(null, { status: 204 });
    }),
  );
  renderPage(<TokensPanel />);
  const table = within(await screen.findByRole("table", { name: "Tokens" }));
  expect(table.getByText("Expired")).toBeVisible();
  await userEvent.click(table.getByRole("button", { name: "Revoke nightly of ann" }));
  await expect.poll(() => revoked).toBe(true);
});
