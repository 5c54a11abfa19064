// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { setupServer } from "msw/node";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { API } from "../api/http";
import { detail, ANALYST, version } from "../testing/samples";
import { show } from "../testing/show";
import { VersionsPanel } from "./VersionsPanel";

const NEWEST = 7;
const A_PAGE = 3;
const server = setupServer(
  http.get(`*${API}/rules/1/versions`, ({ request }) => {
    const before = Number(new URL(request.url).searchParams.get("before") ?? NEWEST + 1);
    const revisions = Array.from({ length: Math.min(A_PAGE, before - 1) }, (_, i) => before - 1 - i);
    const last = revisions.at(-1) ?? 1;
    return HttpResponse.json({ items: revisions.map((each) => version(each)), next: last > 1 ? String(last) : null });
  }),
  http.get(`*${API}/rules/1/diff`, ({ request }) => {
    const asked = new URL(request.url).searchParams;
    return HttpResponse.json({ changes: [{ field: "limit", before: asked.get("from"), after: asked.get("to") }] });
  }),
);

beforeAll(() => server.listen({ onUnhandledRequest: "error" }));
afterEach(() => server.resetHandlers());
afterAll(() => server.close());

const table = () => screen.findByRole("table", { name: "Versions" });
const rows = async () => within(await table()).getAllByRole("row").length - 1;

test("versions are listed page by page, to the first", async () => {
  show(<VersionsPanel rule={detail({ revision: NEWEST })} me={ANALYST} />);
  expect(await rows()).toBe(A_PAGE);
  await userEvent.click(screen.getByRole("button", { name: "Older ones" }));
  await waitFor(async () => expect(await rows()).toBe(2 * A_PAGE));
  await userEvent.click(screen.getByRole("button", { name: "Older ones" }));
  await waitFor(async () => expect(await rows()).toBe(NEWEST));
  expect(screen.queryByRole("button", { name: "Older ones" })).toBeNull();
});

test("the version that fired is found however old it is, and compared with the one before it", async () => {
  show(<VersionsPanel rule={detail({ revision: NEWEST })} me={ANALYST} />, { at: "/rules/1?log=102" });
  await waitFor(async () => expect(await table()).toHaveTextContent("fired"));
  const comparison = screen.getByRole("region", { name: "Comparison" });
  await waitFor(() => expect(comparison.textContent).toMatch(/limit.*1.*2/u));
  const newest = within(await table()).getByRole("row", { name: /^7 / });
  await userEvent.click(within(newest).getByRole("button", { name: "Compare" }));
  await waitFor(() => expect(comparison.textContent).toMatch(/limit.*6.*7/u));
});
