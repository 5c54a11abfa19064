// @vitest-environment jsdom
import { Notifications } from "@mantine/notifications";
import { cleanup, configure, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { Link, Route, Routes } from "react-router";
import { beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { useRules } from "../api/hooks";
import { API } from "../api/http";
import { keys } from "../api/keys";
import type { Me, Reason, RuleDetail, RuleDocument } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { newClient, renderPage } from "../testing/renderPage";
import { ANALYST, approval, APPROVER, detail, SCHEMA, VIEWER } from "../testing/samples";
import { changesBetween } from "./changes";
// Imported here, so that no single test pays for loading most of the page.
import "./editor/RuleForm";
import RulePage from "./RulePage";

// A whole page renders slowly on a busy machine.
configure({ asyncUtilTimeout: 5_000 });

const CHANGED = { title: "Changed by another user", detail: "rule 1 has been changed by 'abe'" };
const REFUSED = {
  title: "Invalid input",
  detail: "it is not valid",
  reasons: [{ field: "windowMinutes", message: "must be at most 1440" }],
};
const LIMIT_REASON: Reason = { field: "limit", message: "must be a number" };

/** The rules on the server, the saves that it received, and the paths of GET requests. */
let rules = new Map<number, RuleDetail>();
let sent: { to: string; ifMatch: string | null; body: unknown }[] = [];
let reads: string[] = [];

const read = (yaml: string) => parse(yaml) as RuleDocument;

const server = mockServer(
  http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  http.get(`*${API}/lists`, () => HttpResponse.json({ items: [] })),
  http.get(`*${API}/maps`, () => HttpResponse.json({ items: [] })),
  http.get(`*${API}/rules`, () => {
    reads.push("list");
    return HttpResponse.json({ items: [...rules.values()], next: null });
  }),
  http.get(`*${API}/rules/names`, () => HttpResponse.json({ items: [] })),
  http.get<{ id: string }>(`*${API}/rules/:id`, ({ params }) => {
    reads.push(params.id);
    return HttpResponse.json(rules.get(Number(params.id)));
  }),
  http.post(`*${API}/rules/validate`, async ({ request }) => {
    const { yaml, ruleId } = (await request.json()) as { yaml: string; ruleId: number | null };
    const document = read(yaml);
    const valid = typeof document["limit"] === "number";
    const known = rules.get(ruleId ?? 0)?.document ?? {};
    return HttpResponse.json({
      valid,
      reasons: valid ? [] : [LIMIT_REASON],
      warnings: [],
      document: valid ? document : null,
      yaml: null,
      text: null,
      says: "It says so.",
      changes: changesBetween(known, document),
    });
  }),
  http.post(`*${API}/rules`, async ({ request }) => {
    const body = (await request.json()) as { yaml: string };
    sent.push({ to: "new", ifMatch: request.headers.get("If-Match"), body });
    const { name } = read(body.yaml) as { name: string };
    rules.set(7, detail({ ruleId: 7, name, state: "DRAFT", revision: 1, document: { ruleId: 7, ...read(body.yaml) } }));
    return HttpResponse.json(rules.get(7), { status: 201 });
  }),
  http.put(`*${API}/rules/1`, async ({ request }) => {
    const ifMatch = request.headers.get("If-Match");
    const body = (await request.json()) as { yaml: string };
    sent.push({ to: "1", ifMatch, body });
    const revision = rules.get(1)?.revision ?? 0;
    if (ifMatch !== `"${revision}"`) return HttpResponse.json(CHANGED, { status: 412 });
    rules.set(1, ruleOne({ revision: revision + 1, document: read(body.yaml) }));
    return HttpResponse.json(rules.get(1));
  }),
);

beforeEach(() => {
  rules = new Map([[1, ruleOne()]]);
  sent = [];
  reads = [];
});
/** Rule 1, which an approver may edit directly. */
const ruleOne = (members: Partial<RuleDetail> = {}) => detail({ name: "Big spender", ...members });
const withLimit = (limit: number): RuleDocument => ({ ...ruleOne().document, limit });

/** The list of rules, which the tests leave and return to. */
function List() {
  const { data } = useRules();
  return <h1>Rules: {data?.items.map(({ ruleId, revision }) => `${ruleId} at ${revision}`).join(", ")}</h1>;
}

/** Opens a page, with the rule list already in the cache. */
function open(at: string, me: Me = APPROVER) {
  const client = newClient();
  client.setQueryData(keys.me, me);
  client.setQueryData(keys.ruleList, { items: [...rules.values()], next: null });
  for (const rule of rules.values()) client.setQueryData(keys.rule(rule.ruleId), rule);
  return renderPage(
    <>
      <Link to="/rules">Leave</Link>
      <Routes>
        <Route path="/rules" element={<List />} />
        <Route path="/rules/new" element={<RulePage key="new" />} />
        <Route path="/rules/:id" element={<RulePage />} />
      </Routes>
      <Notifications />
    </>,
    { at, client },
  );
}

/** Delays the answer until the test calls the returned function. Without a status the default handler answers. */
function delayAnswer(method: "post" | "put", path: string, status?: number, body: object = {}) {
  let answer: () => void = () => undefined;
  const released = new Promise<void>((done) => (answer = done));
  server.use(
    http[method](`*${API}${path}`, async () => {
      await released;
      return status === undefined ? undefined : HttpResponse.json(body, { status });
    }),
  );
  return answer;
}

const field = (name: string) => screen.findByLabelText(name);
const ruleText = () => screen.findByLabelText("Rule text");
const reason = () => screen.findByRole("textbox", { name: "Reason" });
const comment = () => screen.findByLabelText("Comment");
const validation = () => screen.getByRole("status", { name: "Validation" });
const button = (name: string) => screen.findByRole("button", { name });
const press = async (name: string) => userEvent.click(await button(name));
const openTab = (tab: RegExp) => userEvent.click(screen.getByRole("tab", { name: tab }));
const leave = () => userEvent.click(screen.getByRole("link", { name: "Leave" }));
const list = () => screen.findByRole("heading", { name: /^Rules: / });

/** Replaces the text of a field by a paste, which is faster here than typing. */
async function write(into: Promise<HTMLElement>, text: string) {
  await userEvent.click(await into);
  await userEvent.keyboard("{Control>}a{/Control}");
  await userEvent.paste(text);
}

test("a viewer cannot edit a rule", async () => {
  open("/rules/1", VIEWER);
  expect(await field("Limit")).toHaveAttribute("readonly");
  expect(await ruleText()).toHaveAttribute("contenteditable", "false");
  expect(screen.queryByRole("button", { name: "Save" })).toBeNull();
});

test("the page shows the CPU time of the rule, measured or estimated", async () => {
  open("/rules/1");
  expect(await screen.findByText("CPU time per payment 0.04 µs (estimate)", { normalizer: flat })).toBeVisible();
  cleanup();
  rules.set(1, ruleOne({ measuredCpuNs: 55.5 }));
  open("/rules/1");
  expect(
    await screen.findByText("CPU time per payment 0.06 µs (estimate 0.04 µs)", { normalizer: flat }),
  ).toBeVisible();
});

test("the page shows the rules that the rule names, and those that name it", async () => {
  rules.set(1, ruleOne({ named: [{ ruleId: 12, name: "Mules", state: "SIGNAL" }], namedBy: [] }));
  open("/rules/1");
  const named = within(await screen.findByRole("region", { name: "Names rules" }));
  expect(named.getByRole("listitem")).toHaveTextContent("12 Mules Signal");
  expect(named.getByRole("link")).toHaveAttribute("href", "/rules/12");
  expect(screen.queryByRole("region", { name: "Named by rules" })).toBeNull();
});

test("the editor names the members that one line cannot express", async () => {
  rules.set(1, ruleOne({ document: { ...ruleOne().document, severity: "high", warmUp: true } }));
  open("/rules/1");
  expect(await screen.findByText("One line cannot express severity, warmUp", { normalizer: flat })).toBeVisible();
  expect(screen.getByRole("radio", { name: "One line" })).toBeDisabled();
});

describe("an edit", () => {
  test("is saved with text, comment and base revision, and shows a notification", async () => {
    open("/rules/1");
    await write(field("Limit"), "35");
    await write(comment(), "too many alerts");
    expect(await screen.findByText("1 change from the stored revision", { normalizer: flat })).toBeVisible();
    await press("Save");
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    expect(sent).toMatchObject([{ to: "1", ifMatch: '"3"', body: { comment: "too many alerts" } }]);
    expect(read((sent[0]?.body as { yaml: string }).yaml)).toEqual(withLimit(35));
    expect(await screen.findByText(/^revision 4/u)).toBeVisible();
    expect(await field("Limit")).toHaveValue("35");
    expect(await comment()).toHaveValue("");
    expect(await button("Save")).toBeDisabled();
    expect(await within(validation()).findByText("Valid.")).toBeVisible();
    expect(screen.queryByText(/from the stored revision/u), "there are no changes").toBeNull();
    await leave();
    await waitFor(async () => expect(await list()).toHaveTextContent("Rules: 1 at 4"));
  });

  test("that becomes a request shows a notification and the pending request", async () => {
    delayAnswer("put", "/rules/1", 202, ruleOne({ pendingApproval: approval(1, { action: "edit", target: null }) }))();
    open("/rules/1", ANALYST);
    await write(field("Limit"), "35");
    await press("Request change");
    expect(await reason(), "a request needs a reason").toBeInvalid();
    await write(reason(), "finds smaller frauds");
    await press("Request change");
    expect(await screen.findByText("Requested: another user must approve")).toBeVisible();
    expect(await screen.findByText("Awaiting approval: edited rule")).toBeVisible();
    expect(await field("Limit"), "the stored rule is unchanged").toHaveValue("20");
  });

  test("that the server refuses keeps its content and can be saved again", async () => {
    delayAnswer("put", "/rules/1", 422, REFUSED)();
    open("/rules/1");
    await write(field("Limit"), "35");
    await write(comment(), "too many alerts");
    await press("Save");
    const trouble = await screen.findByRole("alert");
    expect(trouble).toHaveTextContent("it is not valid");
    expect(within(trouble).getByRole("listitem")).toHaveTextContent("windowMinutes must be at most 1440");
    expect(screen.queryByText("Request failed"), "one error is shown").toBeNull();
    expect(await field("Limit")).toHaveValue("35");
    expect(await ruleText()).toHaveTextContent("limit: 35");
    expect(await comment()).toHaveValue("too many alerts");
    server.resetHandlers();
    await press("Save");
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    expect(sent).toMatchObject([{ ifMatch: '"3"', body: { comment: "too many alerts" } }]);
    expect(screen.queryByRole("alert", { name: REFUSED.title })).toBeNull();
  });

  test("with an unreadable response shows an error", async () => {
    server.use(http.put(`*${API}/rules/1`, () => HttpResponse.html("<p>Bad gateway</p>")));
    open("/rules/1");
    await write(field("Limit"), "35");
    await press("Save");
    expect(await screen.findByRole("alert")).toHaveTextContent("Error");
  });

  test("that conflicts is refused, and can overwrite after the new revision was shown", async () => {
    open("/rules/1");
    await write(field("Limit"), "35");
    rules.set(1, ruleOne({ revision: 4, updatedBy: "abe" }));
    await press("Save");
    expect(await screen.findByText("rule 1 has been changed by 'abe'")).toBeVisible();
    expect(await screen.findByText("abe saved revision 4 after you started")).toBeVisible();
    expect(await field("Limit")).toHaveValue("35");
    await press("Keep my edit and overwrite");
    await press("Save");
    expect(await screen.findByText("Rule 1 saved as revision 5")).toBeVisible();
    expect(sent.map(({ ifMatch }) => ifMatch)).toEqual(['"3"', '"4"']);
  });

  test("never overwrites a revision that the user has not seen, even if the cache has it", async () => {
    const client = open("/rules/1");
    await write(field("Limit"), "35");
    rules.set(1, ruleOne({ revision: 4, updatedBy: "abe" }));
    client.setQueryData(keys.rule(1), rules.get(1));
    expect(await screen.findByText("abe saved revision 4 after you started")).toBeVisible();
    await press("Save");
    expect(await screen.findByText("rule 1 has been changed by 'abe'")).toBeVisible();
    expect(sent).toMatchObject([{ ifMatch: '"3"' }]);
  });

  test("is saved by the keyboard, also in the text editor, if it has changes", async () => {
    open("/rules/1");
    const text = await ruleText();
    // jsdom does not implement `isContentEditable`.
    Object.defineProperty(text, "isContentEditable", { value: true });
    await userEvent.click(text);
    await userEvent.keyboard("{Control>}s{/Control}");
    await write(ruleText(), "limit: 36");
    expect(await field("Limit")).toHaveValue("36");
    await userEvent.keyboard("{Control>}s{/Control}");
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    expect(sent).toMatchObject([{ body: { yaml: "limit: 36" } }]);
  });
});

test("the text of a draft has no state, also after a save", async () => {
  const document = { ...withLimit(20), ruleState: "SHADOW" };
  rules.set(1, ruleOne({ state: "DRAFT", document }));
  open("/rules/1", ANALYST);
  expect(await ruleText()).not.toHaveTextContent("ruleState");
  server.use(
    http.put(`*${API}/rules/1`, async ({ request }) => {
      sent.push({ to: "1", ifMatch: request.headers.get("If-Match"), body: await request.json() });
      return HttpResponse.json(ruleOne({ state: "DRAFT", revision: 4, document: { ...document, limit: 35 } }));
    }),
  );
  await write(field("Limit"), "35");
  await press("Save");
  expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
  expect(read((sent[0]?.body as { yaml: string }).yaml)).toEqual(withLimit(35));
  await userEvent.click(screen.getByLabelText("JSON"));
  expect(await ruleText()).not.toHaveTextContent("ruleState");
});

test("the text of a rule in the log has its state", async () => {
  rules.set(1, ruleOne({ state: "SHADOW", document: { ...withLimit(20), ruleState: "SHADOW" } }));
  open("/rules/1");
  expect(await ruleText()).toHaveTextContent("ruleState: SHADOW");
});

describe("during a save", () => {
  test("no second request is sent, and the editor is locked", async () => {
    const answer = delayAnswer("put", "/rules/1");
    const client = open("/rules/1");
    await write(field("Limit"), "35");
    await userEvent.dblClick(await button("Save"));
    await userEvent.type(await comment(), "again{Enter}");
    await userEvent.keyboard("{Control>}s{/Control}");
    await userEvent.type(await field("Limit"), "7");
    await userEvent.click(screen.getByLabelText("JSON"));
    expect(screen.getByLabelText("YAML"), "the format cannot change").toBeChecked();
    expect(await field("Limit")).toHaveValue("35");
    expect(await comment()).toHaveValue("");
    expect(await ruleText()).toHaveAttribute("contenteditable", "false");
    expect(await button("Discard")).toBeDisabled();
    // The event from the stream can arrive before the response.
    client.setQueryData(keys.rule(1), ruleOne({ revision: 4, document: withLimit(35) }));
    expect(await screen.findByText(/^revision 4/u)).toBeVisible();
    expect(screen.queryByText(/saved revision 4 after/u)).toBeNull();
    answer();
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    await waitFor(async () => expect(await ruleText()).toHaveAttribute("contenteditable", "true"));
    expect(sent).toHaveLength(1);
  });

  test("a second click sends no request while validation runs", async () => {
    const answer = delayAnswer("post", "/rules/validate");
    open("/rules/1");
    await write(field("Limit"), "35");
    await userEvent.dblClick(await button("Save"));
    await userEvent.keyboard("{Control>}s{/Control}");
    answer();
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    expect(sent).toHaveLength(1);
  });

  test("the user can leave the page: the notification appears, rule and list are current", async () => {
    const answer = delayAnswer("put", "/rules/1");
    const client = open("/rules/1");
    client.setQueryData(keys.versions(1), { pages: [], pageParams: [] });
    await write(field("Limit"), "35");
    await press("Save");
    await leave();
    expect(await list()).toHaveTextContent("Rules: 1 at 3");
    answer();
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    await waitFor(async () => expect(await list()).toHaveTextContent("Rules: 1 at 4"));
    expect(client.getQueryData(keys.rule(1))).toMatchObject({ revision: 4 });
    expect(client.getQueryState(keys.versions(1))).toMatchObject({ isInvalidated: true });
  });

  test("a request shows its notification on another page", async () => {
    const pendingApproval = approval(1, { action: "edit", target: null });
    const answer = delayAnswer("put", "/rules/1", 202, ruleOne({ pendingApproval }));
    const client = open("/rules/1", ANALYST);
    client.setQueryData(keys.approvals, { items: [], next: null });
    await write(field("Limit"), "35");
    await write(reason(), "finds smaller frauds");
    await press("Request change");
    await leave();
    await list();
    answer();
    expect(await screen.findByText("Requested: another user must approve")).toBeVisible();
    expect(client.getQueryState(keys.approvals)).toMatchObject({ isInvalidated: true });
  });

  test("a refusal shows its notification on another page, with reasons", async () => {
    const answer = delayAnswer("put", "/rules/1", 422, REFUSED);
    open("/rules/1");
    await write(field("Limit"), "35");
    await press("Save");
    await leave();
    await list();
    answer();
    const notification = await screen.findByText("Request failed");
    expect(notification.parentElement).toHaveTextContent("it is not valid windowMinutes: must be at most 1440");
  });

  test.each([
    ["a valid rule is saved", "35", "Rule 1 saved as revision 4"],
    ["an invalid rule is refused", "35x", /^it is not valid/u],
  ])("after the user leaves during validation, %s", async (_, limit, message) => {
    const answer = delayAnswer("post", "/rules/validate");
    if (limit === "35x") delayAnswer("put", "/rules/1", 422, REFUSED)();
    open("/rules/1");
    await write(field("Limit"), limit);
    await press("Save");
    await leave();
    await list();
    answer();
    expect(await screen.findByText(message)).toBeVisible();
  });

  test("the user can switch tabs, and the edit continues from the stored rule", async () => {
    const answer = delayAnswer("put", "/rules/1");
    open("/rules/1");
    await write(field("Limit"), "35");
    await press("Save");
    await openTab(/^What-if/u);
    await openTab(/^Rule/u);
    expect(await button("Save"), "the save is running").toHaveAttribute("data-loading");
    await openTab(/^What-if/u);
    answer();
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    await waitFor(() => expect(screen.queryByRole("tab", { name: /unsaved/u })).toBeNull());
    await openTab(/^Rule/u);
    expect(await field("Limit")).toHaveValue("35");
    expect(screen.queryByText(/after you started/u), "there is no conflict").toBeNull();
    expect(sent).toHaveLength(1);
  });

  test("a refusal is shown on another tab, and the edit keeps its content", async () => {
    const answer = delayAnswer("put", "/rules/1", 422, REFUSED);
    open("/rules/1");
    await write(field("Limit"), "35");
    await write(comment(), "too many alerts");
    await press("Save");
    await openTab(/^What-if/u);
    answer();
    expect(await screen.findByText("Request failed")).toBeVisible();
    await openTab(/^Rule/u);
    expect(await screen.findByRole("alert", { name: REFUSED.title })).toBeVisible();
    expect(await field("Limit")).toHaveValue("35");
    expect(await comment()).toHaveValue("too many alerts");
  });
});

describe("a new rule", () => {
  test("is saved, and its page opens", async () => {
    open("/rules/new", ANALYST);
    await write(ruleText(), "name: Rapid transfers\nlimit: 500");
    await write(comment(), "seen twice");
    await press("Save as draft");
    expect(await screen.findByRole("heading", { name: "7 Rapid transfers" })).toBeVisible();
    expect(await screen.findByText("Rule 7 saved as revision 1")).toBeVisible();
    expect(sent).toMatchObject([{ to: "new", ifMatch: null, body: { comment: "seen twice" } }]);
    expect(read((sent[0]?.body as { yaml: string }).yaml)).toMatchObject({ name: "Rapid transfers", limit: 500 });
    expect(reads, "the page uses the response").toEqual([]);
  });

  test("shows no error before its author has edited the member or saved", async () => {
    open("/rules/new", ANALYST);
    expect(await screen.findByText(/^Still missing: .*limit/u)).toBeVisible();
    expect(screen.queryByText(LIMIT_REASON.message)).toBeNull();
  });

  test("that is a copy of another rule has a name and a description of its own", async () => {
    rules.set(1, ruleOne({ document: { ...ruleOne().document, name: "Large", description: "Above 20,000" } }));
    open("/rules/new?from=1", ANALYST);
    expect(await field("Name")).toHaveValue("");
    expect(await field("Description")).toHaveValue("");
    expect(await field("Limit")).toHaveValue(String(ruleOne().document["limit"]));
  });

  test("that is invalid is not sent, and its errors are shown", async () => {
    open("/rules/new");
    await write(field("Name"), "Rapid transfers");
    await press("Save as draft");
    await waitFor(() => expect(validation()).toHaveFocus());
    expect(await within(validation()).findByText("must be a number")).toBeVisible();
    expect(await button("Save as draft")).toBeEnabled();
    expect(sent).toEqual([]);
    expect(await field("Name")).toHaveValue("Rapid transfers");
  });

  test("has one group for all payments only if its author chooses it", async () => {
    open("/rules/new");
    const one = await screen.findByRole("checkbox", { name: "All payments as one group" });
    expect(one).not.toBeChecked();
    await userEvent.click(one);
    expect(one).toBeChecked();
    expect(await ruleText()).toHaveTextContent("groupingKeyNames: []");
    await userEvent.click(one);
    expect(await ruleText()).toHaveTextContent("groupingKeyNames: null");
  });

  test("with unreadable text is not sent", async () => {
    open("/rules/new");
    await write(ruleText(), "- no\n- rule");
    expect(await within(validation()).findByText("must be a mapping of rule fields")).toBeVisible();
    await press("Save as draft");
    await waitFor(() => expect(validation()).toHaveFocus());
    expect(await button("Save as draft")).toBeEnabled();
    expect(sent).toEqual([]);
  });

  test("is saved after the user has left: notification and list appear, and the page does not change", async () => {
    const answer = delayAnswer("post", "/rules");
    open("/rules/new");
    await write(field("Limit"), "500");
    await press("Save as draft");
    await leave();
    expect(await list()).toHaveTextContent("Rules: 1 at 3");
    answer();
    expect(await screen.findByText("Rule 7 saved as revision 1")).toBeVisible();
    await waitFor(async () => expect(await list()).toHaveTextContent("Rules: 1 at 3, 7 at 1"));
  });

  test("opens its page even if the user has switched tabs", async () => {
    const answer = delayAnswer("post", "/rules");
    open("/rules/new");
    await write(field("Limit"), "500");
    await press("Save as draft");
    await openTab(/^What-if/u);
    answer();
    expect(await screen.findByRole("heading", { name: /^7 / })).toBeVisible();
    expect(sent).toHaveLength(1);
  });
});

function flat(text: string): string {
  return text.replace(/\s+/gu, " ").trim();
}
