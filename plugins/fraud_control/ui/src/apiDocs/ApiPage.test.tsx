// @vitest-environment jsdom
import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import document from "../../openapi.json";
import { API } from "../api/http";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { type ApiDescription, operationsOf, usedSchemas } from "./apiDescription";
import ApiPage from "./ApiPage";

mockServer(
  http.get(`*${API}/openapi.json`, () => HttpResponse.json(document)),
  http.get(`*${API}/tokens`, () => HttpResponse.json({ items: [] })),
);

const DESCRIPTION = document as unknown as ApiDescription;

test("every request has a role, and every schema that it uses exists", () => {
  for (const { method, path, role, body, answers } of operationsOf(DESCRIPTION)) {
    expect(role, `${method} ${path}`).toMatch(/^(viewer|auditor|analyst|approver|admin|any user)$/u);
    for (const schema of [body, ...answers.map((each) => each.schema)])
      for (const name of usedSchemas(schema, DESCRIPTION.components.schemas))
        expect(DESCRIPTION.components.schemas, `${method} ${path}`).toHaveProperty(name);
  }
});

test("a request opens to its parameters, its body and the members of its answer", async () => {
  renderPage(<ApiPage />);
  await userEvent.type(
    await screen.findByRole("searchbox", { name: "Filter requests" }),
    "put /fraud/control/api/subscr",
  );
  const section = within(await screen.findByRole("region", { name: "notifications" }));
  expect(screen.queryByText("/fraud/control/api/rules")).toBeNull();
  await userEvent.click(section.getByText("PUT"));
  const parameters = within(
    await section.findByRole("table", {
      name: "Parameters of PUT /fraud/control/api/subscriptions/{subscription_id}",
    }),
  );
  expect(parameters.getByText("subscription_id (required)")).toBeVisible();
  const members = within(section.getByRole("table", { name: "Members of SubscriptionRequest" }));
  expect(members.getByText("quietFrom?")).toBeVisible();
});
