// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import AuditPage from "./AuditPage";

const server = mockServer();

test.each([
  ["mules", "listName=mules"],
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
  await userEvent.type(screen.getByRole("searchbox", { name: "Filter by rule ID or list" }), text);
  await expect.poll(() => asked.at(-1)).toBe(`?limit=100${wanted && `&${wanted}`}`);
});
