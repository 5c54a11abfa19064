// @vitest-environment jsdom
import { screen, within } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import { keys } from "../api/keys";
import type { Liveness } from "../api/types";
import { formatTime } from "../format";
import { mockServer } from "../testing/mockServer";
import { newClient, renderPage } from "../testing/renderPage";
import { liveness, rule, SINCE, VIEWER } from "../testing/samples";
import { RulesPage } from "./RulesPage";

const server = mockServer(
  http.get(`*${API}/me`, () => HttpResponse.json(VIEWER)),
  http.get(`*${API}/rules`, () =>
    HttpResponse.json({ items: [rule(), rule({ ruleId: 2, state: "PAUSE" })], next: null }),
  ),
  http.get(`*${API}/refused-records`, () => HttpResponse.json({ items: [] })),
);

function rules(known: Liveness) {
  const client = newClient();
  client.setQueryData(keys.liveness, known);
  renderPage(<RulesPage />, { client });
}

test("rules are live while payments are evaluated", async () => {
  rules(liveness({ severity: "NONE" }));
  expect(await screen.findByText(/1 live in the detector$/u)).toBeVisible();
  expect(screen.getByText("Live")).toHaveAttribute("data-tone", "good");
  expect(screen.getByText("Paused in detector")).toBeVisible();
  expect(screen.queryByRole("region", { name: "Rejected records" })).toBeNull();
});

test("no rule is live during an outage", async () => {
  rules(liveness({ severity: "RED" }));
  const since = formatTime(SINCE, SINCE);
  expect(await screen.findByText(new RegExp(`1 loaded, none evaluated since ${since}$`, "u"))).toBeVisible();
  expect(screen.queryByText("Live")).toBeNull();
  expect(screen.getByText("Not evaluated")).toHaveAttribute("data-tone", "warn");
});

test("rejected records are listed with their reasons", async () => {
  const refused = { status: "REJECTED", batchId: 2, time: SINCE, listName: null, mapName: null };
  const reasons = [{ field: "windowMinutes", message: "is required" }];
  server.use(
    http.get(`*${API}/refused-records`, () =>
      HttpResponse.json({
        items: [
          { ...refused, logVersion: 1_234, ruleId: 7, reasons },
          { ...refused, logVersion: 9, ruleId: null, reasons: [{ field: "record", message: "is no JSON" }] },
          { ...refused, logVersion: 8, ruleId: null, listName: "mules", reasons },
        ],
      }),
    ),
  );
  rules(liveness({ severity: "NONE" }));
  const table = await screen.findByRole("table", { name: "Rejected records" });
  const rows = within(table)
    .getAllByRole("row")
    .slice(1)
    .map((row) => row.textContent);
  expect(rows[0]).toMatch(/1,2347windowMinutes is required$/u);
  expect(rows[1]).toMatch(/9unreadablerecord is no JSON$/u);
  expect(rows[2]).toMatch(/8muleswindowMinutes is required$/u);
  expect(within(table).getByRole("link", { name: "7" })).toHaveAttribute("href", "/rules/7");
});
