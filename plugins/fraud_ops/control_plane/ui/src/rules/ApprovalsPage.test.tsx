// @vitest-environment jsdom
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import { ANALYST, approval, rule } from "../testing/samples";
import { serve } from "../testing/serve";
import { show } from "../testing/show";
import ApprovalsPage from "./ApprovalsPage";

serve(
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/rules`, () => HttpResponse.json({ items: [rule()], next: null })),
  http.get(`*${API}/approvals`, ({ request }) => {
    const asked = new URL(request.url).searchParams;
    if (asked.get("open") === "false") return HttpResponse.json({ items: [approval(1)], next: null });
    if (asked.has("before")) return HttpResponse.json({ items: [approval(2)], next: null });
    return HttpResponse.json({ items: [approval(4), approval(3)], next: "3" });
  }),
);

const listed = () => screen.getAllByRole("article").length;

test("what waits is listed page by page", async () => {
  show(<ApprovalsPage />);
  await waitFor(() => expect(listed()).toBe(2));
  expect(screen.queryByText("No differences"), "a move is no change of the document").toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Load older requests" }));
  await waitFor(() => expect(listed()).toBe(3));
  expect(screen.queryByRole("button", { name: "Load older requests" })).toBeNull();
});

test("what was decided is another list", async () => {
  show(<ApprovalsPage />);
  await waitFor(() => expect(listed()).toBe(2));
  await userEvent.click(screen.getByRole("switch", { name: "Show decided" }));
  await waitFor(() => expect(listed()).toBe(1));
});
