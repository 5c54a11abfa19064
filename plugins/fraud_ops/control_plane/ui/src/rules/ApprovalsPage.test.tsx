// @vitest-environment jsdom
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ANALYST, approval, rule } from "../testing/samples";
import ApprovalsPage from "./ApprovalsPage";

mockServer(
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/rules`, () => HttpResponse.json({ items: [rule()], next: null })),
  http.get(`*${API}/approvals`, ({ request }) => {
    const parameters = new URL(request.url).searchParams;
    if (parameters.get("open") === "false") return HttpResponse.json({ items: [approval(1)], next: null });
    if (parameters.has("before")) return HttpResponse.json({ items: [approval(2)], next: null });
    return HttpResponse.json({ items: [approval(4), approval(3)], next: "3" });
  }),
);

const listed = () => screen.getAllByRole("article").length;

test("pending requests are listed page by page", async () => {
  renderPage(<ApprovalsPage />);
  await waitFor(() => expect(listed()).toBe(2));
  expect(screen.queryByText("No differences"), "a transition does not change the document").toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Load older requests" }));
  await waitFor(() => expect(listed()).toBe(3));
  expect(screen.queryByRole("button", { name: "Load older requests" })).toBeNull();
});

test("decided requests are a separate list", async () => {
  renderPage(<ApprovalsPage />);
  await waitFor(() => expect(listed()).toBe(2));
  await userEvent.click(screen.getByRole("switch", { name: "Show decided" }));
  await waitFor(() => expect(listed()).toBe(1));
});
