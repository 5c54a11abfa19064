// @vitest-environment jsdom
import { Notifications, notifications } from "@mantine/notifications";
import { configure, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { Link, Route, Routes } from "react-router";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { useRules } from "../api/hooks";
import { API } from "../api/http";
import { keys } from "../api/keys";
import type { Me, Reason, RuleDetail, RuleDocument } from "../api/types";
import { ANALYST, APPROVER, approval, detail, SCHEMA, VIEWER } from "../testing/samples";
import { serve } from "../testing/serve";
import { newClient, show } from "../testing/show";
import { changesBetween } from "./changes";
// Loaded with the others, not within a test: it is most of what the page loads once it is needed.
import "./editor/RuleForm";
import RulePage from "./RulePage";

// A whole page takes its time where the machine is busy.
configure({ asyncUtilTimeout: 5_000 });

const CHANGED = { title: "Somebody else has changed it", detail: "rule 1 has been changed by 'abe'" };
const REFUSED = {
  title: "Something in it is not valid",
  detail: "it is not valid",
  reasons: [{ field: "windowMinutes", message: "must be at most 1440" }],
};
const LIMIT_REASON: Reason = { field: "limit", message: "must be a number" };

/** The rules that the server has, what it was sent to save, and what it was asked for by GET. */
let rules = new Map<number, RuleDetail>();
let sent: { to: string; ifMatch: string | null; body: unknown }[] = [];
let reads: string[] = [];

const read = (yaml: string) => parse(yaml) as RuleDocument;

const server = serve(
  http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  http.get(`*${API}/rules`, () => {
    reads.push("list");
    return HttpResponse.json({ items: [...rules.values()], next: null });
  }),
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
    rules.set(1, ours({ revision: revision + 1, document: read(body.yaml) }));
    return HttpResponse.json(rules.get(1));
  }),
);

beforeEach(() => {
  rules = new Map([[1, ours()]]);
  sent = [];
  reads = [];
});
afterEach(() => notifications.clean());

/** Rule 1, which an approver may edit as it is. */
const ours = (members: Partial<RuleDetail> = {}) => detail({ name: "Big spender", ...members });
const withLimit = (limit: number): RuleDocument => ({ ...ours().document, limit });

/** The list of rules, from which and to which one goes. */
function List() {
  const { data } = useRules();
  return <h1>Rules: {data?.items.map(({ ruleId, revision }) => `${ruleId} at ${revision}`).join(", ")}</h1>;
}

/** The pages that there are to go to, with the list read already. */
function open(at: string, me: Me = APPROVER) {
  const client = newClient();
  client.setQueryData(keys.me, me);
  client.setQueryData(keys.ruleList, { items: [...rules.values()], next: null });
  for (const rule of rules.values()) client.setQueryData(keys.rule(rule.ruleId), rule);
  return show(
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

/** Once what this returns is called, the server goes on with what it was asked so, or answers it with this. */
function answersLater(method: "post" | "put", path: string, status?: number, body: object = {}) {
  let answer: () => void = () => undefined;
  const told = new Promise<void>((done) => (answer = done));
  server.use(
    http[method](`*${API}${path}`, async () => {
      await told;
      return status === undefined ? undefined : HttpResponse.json(body, { status });
    }),
  );
  return answer;
}

const field = (name: string) => screen.findByLabelText(name);
const theText = () => screen.findByLabelText("Rule text");
const why = () => screen.findByLabelText("Comment");
const wrong = () => screen.getByRole("status", { name: "Validation" });
const button = (name: string) => screen.findByRole("button", { name });
const press = async (name: string) => userEvent.click(await button(name));
const look = (tab: RegExp) => userEvent.click(screen.getByRole("tab", { name: tab }));
const leave = () => userEvent.click(screen.getByRole("link", { name: "Leave" }));
const list = () => screen.findByRole("heading", { name: /^Rules: / });

/** This in the place of what is there: at once, which is quicker here than letter by letter. */
async function write(into: Promise<HTMLElement>, text: string) {
  await userEvent.click(await into);
  await userEvent.keyboard("{Control>}a{/Control}");
  await userEvent.paste(text);
}

test("a rule is not written by those who may only read", async () => {
  open("/rules/1", VIEWER);
  expect(await field("Limit")).toHaveAttribute("readonly");
  expect(await theText()).toHaveAttribute("contenteditable", "false");
  expect(screen.queryByRole("button", { name: "Save" })).toBeNull();
});

describe("an edit", () => {
  test("is saved as text and reason, over the version that was looked at, and told", async () => {
    open("/rules/1");
    await write(field("Limit"), "35");
    await write(why(), "too many alerts");
    expect(await screen.findByText("1 change from the stored revision", { normalizer: flat })).toBeVisible();
    await press("Save");
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    expect(sent).toMatchObject([{ to: "1", ifMatch: '"3"', body: { comment: "too many alerts" } }]);
    expect(read((sent[0]?.body as { yaml: string }).yaml)).toEqual(withLimit(35));
    expect(await screen.findByText(/^revision 4/u)).toBeVisible();
    expect(await field("Limit")).toHaveValue("35");
    expect(await why()).toHaveValue("");
    expect(await button("Save")).toBeDisabled();
    expect(await within(wrong()).findByText("Valid.")).toBeVisible();
    expect(screen.queryByText(/from the stored revision/u), "it is what is stored").toBeNull();
    await leave();
    await waitFor(async () => expect(await list()).toHaveTextContent("Rules: 1 at 4"));
  });

  test("that becomes a request says so, and what waits is shown", async () => {
    answersLater("put", "/rules/1", 202, ours({ pendingApproval: approval(1, { action: "edit", target: null }) }))();
    open("/rules/1", ANALYST);
    await write(field("Limit"), "35");
    await press("Request change");
    expect(await screen.findByText("Requested: another user must approve")).toBeVisible();
    expect(await screen.findByText("Awaiting approval: edited rule")).toBeVisible();
    expect(await field("Limit"), "nothing is changed yet").toHaveValue("20");
  });

  test("that the server refuses keeps what was written, and can be saved again", async () => {
    answersLater("put", "/rules/1", 422, REFUSED)();
    open("/rules/1");
    await write(field("Limit"), "35");
    await write(why(), "too many alerts");
    await press("Save");
    const trouble = await screen.findByRole("alert");
    expect(trouble).toHaveTextContent("it is not valid");
    expect(within(trouble).getByRole("listitem")).toHaveTextContent("windowMinutes must be at most 1440");
    expect(screen.queryByText("Request failed"), "it is said once").toBeNull();
    expect(await field("Limit")).toHaveValue("35");
    expect(await theText()).toHaveTextContent("limit: 35");
    expect(await why()).toHaveValue("too many alerts");
    server.resetHandlers();
    await press("Save");
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    expect(sent).toMatchObject([{ ifMatch: '"3"', body: { comment: "too many alerts" } }]);
    expect(screen.queryByRole("alert", { name: /not valid/u })).toBeNull();
  });

  test("whose answer cannot be read says so", async () => {
    server.use(http.put(`*${API}/rules/1`, () => HttpResponse.html("<p>Bad gateway</p>")));
    open("/rules/1");
    await write(field("Limit"), "35");
    await press("Save");
    expect(await screen.findByRole("alert")).toHaveTextContent("Error");
  });

  test("that somebody was quicker than is refused, and can be saved over theirs once it was seen", async () => {
    open("/rules/1");
    await write(field("Limit"), "35");
    rules.set(1, ours({ revision: 4, updatedBy: "abe" }));
    await press("Save");
    expect(await screen.findByText("rule 1 has been changed by 'abe'")).toBeVisible();
    expect(await screen.findByText("abe saved revision 4 after you started")).toBeVisible();
    expect(await field("Limit")).toHaveValue("35");
    await press("Keep my edit and overwrite");
    await press("Save");
    expect(await screen.findByText("Rule 1 saved as revision 5")).toBeVisible();
    expect(sent.map(({ ifMatch }) => ifMatch)).toEqual(['"3"', '"4"']);
  });

  test("is not saved over what has not been looked at, though the page has it", async () => {
    const client = open("/rules/1");
    await write(field("Limit"), "35");
    rules.set(1, ours({ revision: 4, updatedBy: "abe" }));
    client.setQueryData(keys.rule(1), rules.get(1));
    expect(await screen.findByText("abe saved revision 4 after you started")).toBeVisible();
    await press("Save");
    expect(await screen.findByText("rule 1 has been changed by 'abe'")).toBeVisible();
    expect(sent).toMatchObject([{ ifMatch: '"3"' }]);
  });

  test("is saved from the keyboard, in the text too, where there is something to save", async () => {
    open("/rules/1");
    const text = await theText();
    // As in a browser; jsdom knows no such text.
    Object.defineProperty(text, "isContentEditable", { value: true });
    await userEvent.click(text);
    await userEvent.keyboard("{Control>}s{/Control}");
    await write(theText(), "limit: 36");
    expect(await field("Limit")).toHaveValue("36");
    await userEvent.keyboard("{Control>}s{/Control}");
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    expect(sent).toMatchObject([{ body: { yaml: "limit: 36" } }]);
  });
});

describe("while an edit is being saved", () => {
  test("nothing more is sent, and nothing can be written that would be lost", async () => {
    const answer = answersLater("put", "/rules/1");
    const client = open("/rules/1");
    await write(field("Limit"), "35");
    await userEvent.dblClick(await button("Save"));
    await userEvent.type(await why(), "again{Enter}");
    await userEvent.keyboard("{Control>}s{/Control}");
    await userEvent.type(await field("Limit"), "7");
    await userEvent.click(screen.getByLabelText("JSON"));
    expect(screen.getByLabelText("YAML"), "what comes back is shown as this").toBeChecked();
    expect(await field("Limit")).toHaveValue("35");
    expect(await why()).toHaveValue("");
    expect(await theText()).toHaveAttribute("contenteditable", "false");
    expect(await button("Discard")).toBeDisabled();
    // The news of it can be quicker than the answer.
    client.setQueryData(keys.rule(1), ours({ revision: 4, document: withLimit(35) }));
    expect(await screen.findByText(/^revision 4/u)).toBeVisible();
    expect(screen.queryByText(/saved revision 4 after/u)).toBeNull();
    answer();
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    await waitFor(async () => expect(await theText()).toHaveAttribute("contenteditable", "true"));
    expect(sent).toHaveLength(1);
  });

  test("a second press sends nothing either while it is still being looked at", async () => {
    const answer = answersLater("post", "/rules/validate");
    open("/rules/1");
    await write(field("Limit"), "35");
    await userEvent.dblClick(await button("Save"));
    await userEvent.keyboard("{Control>}s{/Control}");
    answer();
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    expect(sent).toHaveLength(1);
  });

  test("the page can be left: how it went is told, and the rule and the list are up to date", async () => {
    const answer = answersLater("put", "/rules/1");
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

  test("what was asked for is told as well", async () => {
    const pendingApproval = approval(1, { action: "edit", target: null });
    const answer = answersLater("put", "/rules/1", 202, ours({ pendingApproval }));
    const client = open("/rules/1", ANALYST);
    client.setQueryData(keys.approvals, { items: [], next: null });
    await write(field("Limit"), "35");
    await press("Request change");
    await leave();
    await list();
    answer();
    expect(await screen.findByText("Requested: another user must approve")).toBeVisible();
    expect(client.getQueryState(keys.approvals)).toMatchObject({ isInvalidated: true });
  });

  test("a refusal is told too, with its reasons", async () => {
    const answer = answersLater("put", "/rules/1", 422, REFUSED);
    open("/rules/1");
    await write(field("Limit"), "35");
    await press("Save");
    await leave();
    await list();
    answer();
    const told = await screen.findByText("Request failed");
    expect(told.parentElement).toHaveTextContent("it is not valid windowMinutes: must be at most 1440");
  });

  test.each([
    ["what is valid is saved", "35", "Rule 1 saved as revision 4"],
    ["what is not is refused", "35x", /^it is not valid/u],
  ])("left while it is still being looked at, %s and told", async (_, limit, told) => {
    const answer = answersLater("post", "/rules/validate");
    if (limit === "35x") answersLater("put", "/rules/1", 422, REFUSED)();
    open("/rules/1");
    await write(field("Limit"), limit);
    await press("Save");
    await leave();
    await list();
    answer();
    expect(await screen.findByText(told)).toBeVisible();
  });

  test("another tab can be looked at: it goes on from what is stored then", async () => {
    const answer = answersLater("put", "/rules/1");
    open("/rules/1");
    await write(field("Limit"), "35");
    await press("Save");
    await look(/^What-if/u);
    await look(/^Rule/u);
    expect(await button("Save"), "it is still under way").toHaveAttribute("data-loading");
    await look(/^What-if/u);
    answer();
    expect(await screen.findByText("Rule 1 saved as revision 4")).toBeVisible();
    await waitFor(() => expect(screen.queryByRole("tab", { name: /unsaved/u })).toBeNull());
    await look(/^Rule/u);
    expect(await field("Limit")).toHaveValue("35");
    expect(screen.queryByText(/after you started/u), "nobody else has saved it").toBeNull();
    expect(sent).toHaveLength(1);
  });

  test("a refusal is told on the other tab, and nothing is lost of what was written", async () => {
    const answer = answersLater("put", "/rules/1", 422, REFUSED);
    open("/rules/1");
    await write(field("Limit"), "35");
    await write(why(), "too many alerts");
    await press("Save");
    await look(/^What-if/u);
    answer();
    expect(await screen.findByText("Request failed")).toBeVisible();
    await look(/^Rule/u);
    expect(await screen.findByRole("alert", { name: REFUSED.title })).toBeVisible();
    expect(await field("Limit")).toHaveValue("35");
    expect(await why()).toHaveValue("too many alerts");
  });
});

describe("a new rule", () => {
  test("saving it tells, and goes to its page", async () => {
    open("/rules/new", ANALYST);
    await write(theText(), "name: Rapid transfers\nlimit: 500");
    await write(why(), "seen twice");
    await press("Save as draft");
    expect(await screen.findByRole("heading", { name: "7 Rapid transfers" })).toBeVisible();
    expect(await screen.findByText("Rule 7 saved as revision 1")).toBeVisible();
    expect(sent).toMatchObject([{ to: "new", ifMatch: null, body: { comment: "seen twice" } }]);
    expect(read((sent[0]?.body as { yaml: string }).yaml)).toMatchObject({ name: "Rapid transfers", limit: 500 });
    expect(reads, "its page has it from the answer").toEqual([]);
  });

  test("what is not valid is not sent, and what is wrong is shown", async () => {
    open("/rules/new");
    await write(field("Name"), "Rapid transfers");
    await press("Save as draft");
    await waitFor(() => expect(wrong()).toHaveFocus());
    expect(await within(wrong()).findByText("must be a number")).toBeVisible();
    expect(await button("Save as draft")).toBeEnabled();
    expect(sent).toEqual([]);
    expect(await field("Name")).toHaveValue("Rapid transfers");
  });

  test("has one group for all payments only when its author chooses it", async () => {
    open("/rules/new");
    const one = await screen.findByRole("checkbox", { name: "All payments as one group" });
    expect(one).not.toBeChecked();
    await userEvent.click(one);
    expect(one).toBeChecked();
    expect(await theText()).toHaveTextContent("groupingKeyNames: []");
    await userEvent.click(one);
    expect(await theText()).toHaveTextContent("groupingKeyNames: null");
  });

  test("nor is a text that nothing can be read from", async () => {
    open("/rules/new");
    await write(theText(), "- no\n- rule");
    expect(await within(wrong()).findByText("must be a mapping of rule fields")).toBeVisible();
    await press("Save as draft");
    await waitFor(() => expect(wrong()).toHaveFocus());
    expect(await button("Save as draft")).toBeEnabled();
    expect(sent).toEqual([]);
  });

  test("where its page was left meanwhile it is told, the list is read again, and nobody is led away", async () => {
    const answer = answersLater("post", "/rules");
    open("/rules/new");
    await write(field("Limit"), "500");
    await press("Save as draft");
    await leave();
    expect(await list()).toHaveTextContent("Rules: 1 at 3");
    answer();
    expect(await screen.findByText("Rule 7 saved as revision 1")).toBeVisible();
    await waitFor(async () => expect(await list()).toHaveTextContent("Rules: 1 at 3, 7 at 1"));
  });

  test("one who looks at another tab meanwhile is led to its page as well", async () => {
    const answer = answersLater("post", "/rules");
    open("/rules/new");
    await write(field("Limit"), "500");
    await press("Save as draft");
    await look(/^What-if/u);
    answer();
    expect(await screen.findByRole("heading", { name: /^7 / })).toBeVisible();
    expect(sent).toHaveLength(1);
  });
});

function flat(text: string): string {
  return text.replace(/\s+/gu, " ").trim();
}
