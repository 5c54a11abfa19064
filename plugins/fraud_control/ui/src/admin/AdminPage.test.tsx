// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import { keys } from "../api/keys";
import type { Me } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { newClient, renderPage } from "../testing/renderPage";
import { APPROVER } from "../testing/samples";
import AdminPage from "./AdminPage";

const server = mockServer();

function open(me: Me) {
  const client = newClient();
  client.setQueryData(keys.me, me);
  renderPage(<AdminPage />, { client });
}

test("other roles than admin see neither roles nor controls", () => {
  open(APPROVER);
  expect(screen.getByText("Only admins assign roles and send controls.")).toBeVisible();
  expect(screen.queryByRole("button")).toBeNull();
});

test("an admin sees the roles and the controls", async () => {
  server.use(
    http.get(`*${API}/bindings`, () =>
      HttpResponse.json({ items: [{ user: "vera", role: "viewer", by: null, at: null }] }),
    ),
  );
  open({ ...APPROVER, role: "admin", can: [...APPROVER.can, "control"] });
  expect(await screen.findByRole("cell", { name: "vera" })).toBeVisible();
  expect(screen.getByRole("button", { name: "Clear all state …" })).toBeVisible();
});
