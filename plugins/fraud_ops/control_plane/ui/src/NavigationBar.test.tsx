// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "./api/http";
import { keys } from "./api/keys";
import { NavigationBar } from "./NavigationBar";
import { mockServer } from "./testing/mockServer";
import { newClient, renderPage } from "./testing/renderPage";
import { ANALYST, liveness } from "./testing/samples";

mockServer(
  http.get(`*${API}/approvals`, () => HttpResponse.json({ items: [], next: null })),
  http.get(`*${API}/liveness`, () => HttpResponse.json(liveness({ severity: "NONE" }))),
);

test("the bar and its menu show the time zone of the times", () => {
  const client = newClient();
  client.setQueryData(keys.me, ANALYST);
  renderPage(<NavigationBar me={ANALYST} />, { client });
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  expect(screen.getByTitle("Time zone of all times on these pages")).toHaveTextContent(timeZone);
  expect(screen.getByText(`Times in ${timeZone} · ann · analyst`)).toBeInTheDocument();
});
