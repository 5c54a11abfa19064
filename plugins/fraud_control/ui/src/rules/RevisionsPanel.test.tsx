// @vitest-environment jsdom
import { Notifications } from "@mantine/notifications";
import { useQuery } from "@tanstack/react-query";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { afterEach, describe, expect, test } from "vitest";
import { API, get } from "../api/http";
import { keys } from "../api/keys";
import type { Me, RuleDetail } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { newClient, renderPage } from "../testing/renderPage";
import { ANALYST, approval, APPROVER, detail, rule, version } from "../testing/samples";
import { RevisionsPanel } from "./RevisionsPanel";

const NEWEST = 7;
const A_PAGE = 3;
const CHANGED = { title: "Changed by another user", detail: "rule 1 has been changed by 'abe'" };

/** The rule on the server, and the requests that it received. */
let stored = detail({ revision: NEWEST });
let sent: { ifMatch: string | null; body: unknown }[] = [];

const server = mockServer(
  http.get(`*${API}/rules/1/versions`, ({ request }) => {
    const before = Number(new URL(request.url).searchParams.get("before") ?? NEWEST + 1);
    const revisions = Array.from({ length: Math.min(A_PAGE, before - 1) }, (_, i) => before - 1 - i);
    const last = revisions.at(-1) ?? 1;
    return HttpResponse.json({ items: revisions.map((each) => version(each)), next: last > 1 ? String(last) : null });
  }),
  http.get(`*${API}/rules/1/diff`, ({ request }) => {
    const parameters = new URL(request.url).searchParams;
    return HttpResponse.json({
      changes: [{ field: "limit", before: parameters.get("from"), after: parameters.get("to") }],
    });
  }),
  http.get(`*${API}/rules/1`, () => HttpResponse.json(stored)),
  http.post(`*${API}/rules/1/rollback`, async ({ request }) => {
    const ifMatch = request.headers.get("If-Match");
    sent.push({ ifMatch, body: await request.json() });
    if (ifMatch !== `"${stored.revision}"`) return HttpResponse.json(CHANGED, { status: 412 });
    stored = detail({ revision: stored.revision + 1 });
    return HttpResponse.json(stored);
  }),
);

afterEach(() => {
  sent = [];
});

const table = () => screen.findByRole("table", { name: "Revisions" });
const rows = async () => within(await table()).getAllByRole("row").length - 1;

test("revisions are listed page by page, to the first", async () => {
  renderPage(<RevisionsPanel rule={detail({ revision: NEWEST })} me={ANALYST} />);
  expect(await rows()).toBe(A_PAGE);
  await userEvent.click(screen.getByRole("button", { name: "Load older revisions" }));
  await waitFor(async () => expect(await rows()).toBe(2 * A_PAGE));
  await userEvent.click(screen.getByRole("button", { name: "Load older revisions" }));
  await waitFor(async () => expect(await rows()).toBe(NEWEST));
  expect(screen.queryByRole("button", { name: "Load older revisions" })).toBeNull();
});

test("the revision that fired is found at any age and compared with the one before it", async () => {
  renderPage(<RevisionsPanel rule={detail({ revision: NEWEST })} me={ANALYST} />, { at: "/rules/1?log=102" });
  await waitFor(async () => expect(await table()).toHaveTextContent("Fired"));
  const comparison = screen.getByRole("region", { name: "Comparison" });
  await waitFor(() => expect(comparison.textContent).toMatch(/limit.*1.*2/u));
  const newest = within(await table()).getByRole("row", { name: /^7 / });
  await userEvent.click(within(newest).getByRole("button", { name: "Compare" }));
  await waitFor(() => expect(comparison.textContent).toMatch(/limit.*6.*7/u));
});

describe("a rollback", () => {
  /** Rule 1 and its revisions, with the query of its page. */
  function RuleFixture({ me }: { me: Me }) {
    const { data } = useQuery({ queryKey: keys.rule(1), queryFn: ({ signal }) => get<RuleDetail>("/rules/1", signal) });
    return (
      <>
        <main>
          the rule is at {data?.revision}
          {data && <RevisionsPanel rule={data} me={me} />}
        </main>
        <Notifications />
      </>
    );
  }

  /** Opens the revisions and the dialog that rolls back to revision 6. */
  async function open(members: Partial<RuleDetail> = {}, me = APPROVER) {
    stored = detail({ revision: NEWEST, ...members });
    const client = newClient();
    client.setQueryData(keys.rule(1), stored);
    renderPage(<RuleFixture me={me} />, { client });
    await choose();
    return client;
  }

  const choose = async () => userEvent.click(await screen.findByRole("button", { name: "Roll back to 6" }));
  const dialog = () => screen.findByRole("dialog");
  const confirm = async (name: string) => userEvent.click(within(await dialog()).getByRole("button", { name }));
  const closed = () => waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());

  /** Delays the answer until the test calls the returned function. */
  function delayAnswer(body: object, status: number) {
    let answer: () => void = () => undefined;
    const released = new Promise<void>((done) => (answer = done));
    server.use(
      http.post(`*${API}/rules/1/rollback`, async () => {
        await released;
        return HttpResponse.json(body, { status });
      }),
    );
    return answer;
  }

  test("sends the comment and the revision", async () => {
    await open();
    await userEvent.type(within(await dialog()).getByRole("textbox", { name: "Comment" }), "too many alerts");
    await confirm("Roll back");
    expect(await screen.findByText("Revision 6 restored as revision 8")).toBeVisible();
    expect(sent).toEqual([{ ifMatch: '"7"', body: { revision: 6, comment: "too many alerts" } }]);
    await closed();
    expect(screen.getByText("the rule is at 8")).toBeVisible();
  });

  test("after a pause offers to close the cases that only the active revision opened", async () => {
    const active = version(7, { at: 1_000 });
    const paused = version(8, { state: "PAUSE", at: 5_000, activation: null });
    server.use(
      http.get(`*${API}/rules/1/versions`, () =>
        HttpResponse.json({ items: [paused, active, version(6)], next: null }),
      ),
    );
    await open({ revision: 8, state: "PAUSE" });
    await confirm("Roll back");
    const offer = await screen.findByRole("link", { name: "Close the cases that only revision 7 opened" });
    expect(offer).toHaveAttribute("href", "/cases?ruleId=1&since=1000&until=5000&onlyRule=true");
  });

  test("of an active rule to a shadow revision keeps the state", async () => {
    const old = version(6, { state: "SHADOW", document: { ...rule().document, limit: 6, ruleState: "SHADOW" } });
    server.use(
      http.get(`*${API}/rules/1/versions`, () => HttpResponse.json({ items: [version(NEWEST), old], next: null })),
    );
    await open({ document: { ...rule().document, ruleState: "ACTIVE" } });
    expect(await dialog()).toHaveTextContent("The state stays active.");
    const changes = within(await dialog()).getByRole("table", { name: "Differences" });
    expect(changes).toHaveTextContent("limit");
    expect(changes).not.toHaveTextContent("ruleState");
  });

  test("to the content that the rule already has says so", async () => {
    await open();
    server.use(http.post(`*${API}/rules/1/rollback`, () => HttpResponse.json(detail({ revision: NEWEST }))));
    await confirm("Roll back");
    expect(await screen.findByText("The rule already has the content of revision 6")).toBeVisible();
  });

  test("that becomes a request shows a notification and blocks further rollbacks", async () => {
    await open({}, ANALYST);
    server.use(
      http.post(`*${API}/rules/1/rollback`, () =>
        HttpResponse.json(detail({ revision: NEWEST, pendingApproval: approval(1, { action: "rollback" }) }), {
          status: 202,
        }),
      ),
    );
    await userEvent.type(within(await dialog()).getByRole("textbox", { name: "Reason" }), "a flood");
    await confirm("Request rollback");
    expect(await screen.findByText(/another user must approve/u)).toBeVisible();
    await waitFor(() => expect(screen.queryByRole("button", { name: "Roll back to 6" })).toBeNull());
  });

  test("to content that was approved before is no request of an approver", async () => {
    const items = [version(NEWEST), version(6, { approved: true })];
    server.use(http.get(`*${API}/rules/1/versions`, () => HttpResponse.json({ items, next: null })));
    await open({}, { ...APPROVER, fourEyes: true });
    expect(await dialog()).toHaveTextContent("This content was approved before, so it takes effect at once.");
    await confirm("Roll back");
    expect(await screen.findByText("Revision 6 restored as revision 8")).toBeVisible();
  });

  test("shows a notification even if the dialog was closed", async () => {
    await open();
    const answer = delayAnswer(detail({ revision: 8 }), 200);
    await confirm("Roll back");
    await confirm("Cancel");
    await closed();
    answer();
    expect(await screen.findByText("Revision 6 restored as revision 8")).toBeVisible();
    expect(screen.getByText("the rule is at 8")).toBeVisible();
  });

  test("reports a conflict even if the dialog was closed, and the rule is read again", async () => {
    await open();
    const answer = delayAnswer(CHANGED, 412);
    stored = detail({ revision: 8 });
    await confirm("Roll back");
    await confirm("Cancel");
    await closed();
    answer();
    expect(await screen.findByText("rule 1 has been changed by 'abe'")).toBeVisible();
    expect(await screen.findByText("the rule is at 8")).toBeVisible();
  });

  test("is refused after a change by another user, and succeeds after the new revision was shown", async () => {
    await open();
    stored = detail({ revision: 8 });
    await confirm("Roll back");
    const trouble = await within(await dialog()).findByRole("alert");
    expect(trouble).toHaveTextContent("Changed by another user");
    expect(trouble).toHaveTextContent("rule 1 has been changed by 'abe'");
    expect(screen.queryByText("Request failed"), "one error is shown").toBeNull();
    expect(await screen.findByText("the rule is at 8")).toBeInTheDocument();
    await confirm("Cancel");
    await closed();
    await choose();
    await confirm("Roll back");
    await closed();
    expect(sent.map(({ ifMatch }) => ifMatch)).toEqual(['"7"', '"8"']);
  });

  test("is refused if the rule was saved while the dialog was open", async () => {
    const client = await open();
    expect(await within(await dialog()).findByText(/limit/u)).toBeVisible();
    stored = detail({ revision: 8 });
    client.setQueryData(keys.rule(1), stored);
    expect(await screen.findByText("the rule is at 8")).toBeInTheDocument();
    await confirm("Roll back");
    expect(await within(await dialog()).findByRole("alert")).toHaveTextContent("Changed by another user");
    expect(sent).toMatchObject([{ ifMatch: '"7"' }]);
  });
});
