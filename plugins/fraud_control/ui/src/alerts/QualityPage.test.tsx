// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { QualityTable } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ANALYST, rule } from "../testing/samples";
import QualityPage from "./QualityPage";

const MINUTE_MS = 60_000;

const server = mockServer(
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/rules/names`, () => HttpResponse.json({ items: [rule()] })),
  http.get(`*${API}/labels`, () => HttpResponse.json({ sources: [], unreadable: 0 })),
);

test.each([
  ["of a rule whose first alert is 10 minutes old has no extrapolation", 10, "40 in 10 min"],
  ["of an older rule is per hour", 90, "240"],
])("the alert rate %s", async (_, minutes, rate) => {
  const since = Date.now() - minutes * MINUTE_MS;
  const counts = { alerts: 40, perHour: 240, fraud: 1, notFraud: 0, precision: 1 };
  const row: QualityTable["items"][number] = { ruleId: 1, since, flooding: false, overlap: [], ...counts };
  server.use(http.get(`*${API}/quality`, () => HttpResponse.json({ items: [row] })));
  renderPage(<QualityPage />);
  const [, , perHour] = await screen.findAllByRole("cell");
  expect(perHour).toHaveTextContent(new RegExp(`^${rate}$`, "u"));
});
