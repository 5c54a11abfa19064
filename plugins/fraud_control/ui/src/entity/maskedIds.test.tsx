// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import { FieldValue } from "../components/FieldValue";
import { hitsOf } from "../search/hits";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { SCHEMA } from "../testing/samples";
import { EntityLinks } from "./EntityLinks";

mockServer(http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)));

const { fields } = SCHEMA;

test("a masked id of a payment is text, and the other ids are links", async () => {
  renderPage(<EntityLinks payment={{ payeeId: "••••4711", beneficiaryId: 7 }} />);
  expect(await screen.findByRole("link", { name: "Beneficiary 7" })).toBeVisible();
  expect(screen.getByText("Payer ••••4711")).toBeVisible();
  expect(screen.getAllByRole("link")).toHaveLength(1);
});

test("a masked value in a table of payments is text, also a hidden one", () => {
  renderPage(
    <>
      <FieldValue name="payeeId" value="••••4711" fields={fields} />
      <FieldValue name="beneficiaryId" value="••••" fields={fields} />
      <FieldValue name="payeeId" value={4711} fields={fields} />
    </>,
  );
  expect(screen.getByText(/••••4711/u)).toBeVisible();
  expect(screen.getAllByRole("link").map((each) => each.textContent)).toEqual(["4711"]);
});

test("a search for a masked id finds no page of an id", () => {
  const found = { rules: [], cases: [], alerts: [], decisions: [], ids: [{ field: "payeeId", hasAlerts: false }] };
  expect(hitsOf(found, "••••4711", new Map(), fields)).toEqual([]);
  expect(hitsOf(found, "4711", new Map(), fields)).toHaveLength(1);
});
