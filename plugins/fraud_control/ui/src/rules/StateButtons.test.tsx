// @vitest-environment jsdom
import { Notifications } from "@mantine/notifications";
import { useQuery } from "@tanstack/react-query";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { afterEach, describe, expect, test } from "vitest";
import { API, get } from "../api/http";
import { keys } from "../api/keys";
import type { Me, RuleDetail, StateName } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { newClient, renderPage } from "../testing/renderPage";
import { ANALYST, approval, APPROVER, detail, VIEWER } from "../testing/samples";
import { StateButtons } from "./StateButtons";

const ADMIN: Me = { ...APPROVER, user: "ada", role: "admin", can: [...APPROVER.can, "control", "bind"] };

/** The next states that the server allows for each state. */
const NEXT: Record<StateName, StateName[]> = {
  DRAFT: ["SHADOW", "ACTIVE", "DELETE"],
  SHADOW: ["ACTIVE", "DELETE"],
  ACTIVE: ["PAUSE", "SHADOW", "DELETE"],
  SIGNAL: ["PAUSE", "SHADOW", "DELETE"],
  PAUSE: ["ACTIVE", "SHADOW", "DELETE"],
  DELETE: [],
};

const inState = (state: StateName, members: Partial<RuleDetail> = {}) =>
  detail({ state, nextStates: NEXT[state], ...members });

const CHANGED = { title: "Changed by another user", detail: "rule 1 has been changed by 'abe'" };

/** The rule on the server, and the requests that it received. */
let stored = inState("SHADOW");
let sent: { ifMatch: string | null; body: unknown }[] = [];

const server = mockServer(
  http.get(`*${API}/rules/1`, () => HttpResponse.json(stored)),
  http.post(`*${API}/rules/1/state`, async ({ request }) => {
    const body = (await request.json()) as { state: StateName };
    sent.push({ ifMatch: request.headers.get("If-Match"), body });
    if (request.headers.get("If-Match") !== `"${stored.revision}"`) {
      return HttpResponse.json(CHANGED, { status: 412 });
    }
    stored = inState(body.state, { revision: stored.revision + 1 });
    return HttpResponse.json(stored);
  }),
);

afterEach(() => {
  sent = [];
});

/** Rule 1 and its buttons, with the query of its page. */
function RuleFixture({ me, unsaved }: { me: Me; unsaved: boolean }) {
  const { data } = useQuery({ queryKey: keys.rule(1), queryFn: ({ signal }) => get<RuleDetail>("/rules/1", signal) });
  return (
    <>
      <main>
        version {data?.revision}
        {data && <StateButtons rule={data} me={me} unsaved={unsaved} />}
      </main>
      <Notifications />
    </>
  );
}

function open(rule: RuleDetail, me: Me, { unsaved = false } = {}) {
  stored = rule;
  const client = newClient();
  client.setQueryData(keys.rule(1), rule);
  return renderPage(<RuleFixture me={me} unsaved={unsaved} />, { client });
}

/** Delays the answer until the test calls the returned function. */
function delayAnswer(body: object, status: number) {
  let answer: () => void = () => undefined;
  const released = new Promise<void>((done) => (answer = done));
  server.use(
    http.post(`*${API}/rules/1/state`, async () => {
      await released;
      return HttpResponse.json(body, { status });
    }),
  );
  return answer;
}

const buttonTexts = () =>
  within(screen.getByRole("main"))
    .queryAllByRole("button")
    .map((each) => each.textContent);
const press = (name: string) => userEvent.click(screen.getByRole("button", { name }));
const dialog = () => screen.findByRole("dialog");
const confirm = async (name: string) => userEvent.click(within(await dialog()).getByRole("button", { name }));

describe("buttons", () => {
  const fourEyes = (me: Me): Me => ({ ...me, fourEyes: true });
  test.each<[string, StateName, Me, string[]]>([
    ["a viewer", "ACTIVE", VIEWER, []],
    ["an analyst", "DRAFT", ANALYST, ["Move to shadow", "Delete"]],
    ["an analyst", "SHADOW", ANALYST, ["Request activation", "Delete"]],
    ["an analyst", "ACTIVE", ANALYST, ["Request pause", "Request move to shadow", "Request deletion"]],
    ["an analyst", "PAUSE", ANALYST, ["Request resume", "Request move to shadow", "Request deletion"]],
    ["an approver", "DRAFT", APPROVER, ["Move to shadow", "Delete"]],
    ["an approver", "SHADOW", APPROVER, ["Activate", "Delete"]],
    ["an approver", "ACTIVE", APPROVER, ["Pause", "Move to shadow", "Delete"]],
    ["an approver", "PAUSE", APPROVER, ["Resume", "Move to shadow", "Delete"]],
    ["an approver with four eyes", "SHADOW", fourEyes(APPROVER), ["Request activation", "Delete"]],
    ["an approver with four eyes", "ACTIVE", fourEyes(APPROVER), ["Pause", "Move to shadow", "Delete"]],
    ["an approver with four eyes", "PAUSE", fourEyes(APPROVER), ["Request resume", "Move to shadow", "Delete"]],
    ["an admin", "DRAFT", ADMIN, ["Move to shadow", "Activate", "Delete"]],
    ["an admin with four eyes", "DRAFT", fourEyes(ADMIN), ["Move to shadow", "Request activation", "Delete"]],
    ["an admin", "DELETE", ADMIN, []],
  ])("%s, %s", (_, state, me, buttons) => {
    open(inState(state), me);
    expect(buttonTexts()).toEqual(buttons);
  });

  test("unsaved changes block a transition that keeps the rule evaluated", async () => {
    open(inState("ACTIVE"), APPROVER, { unsaved: true });
    const shadow = screen.getByRole("button", { name: "Move to shadow" });
    expect(shadow).toHaveAttribute("aria-disabled", "true");
    await userEvent.hover(shadow);
    expect(await screen.findByRole("tooltip")).toHaveTextContent("Save or discard");
    await userEvent.click(shadow);
    expect(screen.queryByRole("dialog")).toBeNull();
  });

  test("unsaved changes do not block a pause", async () => {
    open(inState("ACTIVE"), APPROVER, { unsaved: true });
    await press("Pause");
    await confirm("Pause");
    await waitFor(() => expect(sent).toHaveLength(1));
  });

  test("a pending request blocks another request", async () => {
    open(inState("ACTIVE", { pendingApproval: approval(1, { target: "SHADOW" }) }), ANALYST);
    const pause = screen.getByRole("button", { name: "Request pause" });
    expect(pause).toHaveAttribute("aria-disabled", "true");
    await userEvent.click(pause);
    expect(screen.queryByRole("dialog")).toBeNull();
  });

  test("a pending request does not block a pause, and lapses", async () => {
    open(inState("ACTIVE", { pendingApproval: approval(1, { action: "edit", target: null }) }), APPROVER);
    await press("Pause");
    expect(await dialog()).toHaveTextContent("The pending request lapses.");
    await confirm("Pause");
    await waitFor(() => expect(sent).toHaveLength(1));
  });
});

describe("transitions", () => {
  test("a deletion asks for confirmation and can be cancelled", async () => {
    open(inState("ACTIVE"), APPROVER);
    await press("Delete");
    expect(await dialog()).toHaveTextContent("Delete: rule 1");
    expect(await dialog()).toHaveTextContent("The rule ends. Its revisions stay here.");
    await confirm("Cancel");
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(sent).toEqual([]);
  });

  test("a transition sends the comment and the revision, and offers the next transitions", async () => {
    open(inState("SHADOW", { revision: 3 }), APPROVER);
    await press("Activate");
    await userEvent.type(within(await dialog()).getByRole("textbox", { name: "Comment" }), "three frauds found");
    await confirm("Activate");
    await waitFor(() => expect(buttonTexts()).toEqual(["Pause", "Move to shadow", "Delete"]));
    expect(sent).toEqual([{ ifMatch: '"3"', body: { state: "ACTIVE", comment: "three frauds found" } }]);
    expect(await screen.findByText("Rule 1: active")).toBeVisible();
  });

  test("a transition that becomes a request shows a notification and blocks further requests", async () => {
    server.use(
      http.post(`*${API}/rules/1/state`, () =>
        HttpResponse.json(inState("SHADOW", { pendingApproval: approval(1) }), { status: 202 }),
      ),
    );
    open(inState("SHADOW"), ANALYST);
    await press("Request activation");
    await confirm("Request activation");
    const reason = within(await dialog()).getByRole("textbox", { name: "Reason" });
    expect(reason, "a request needs a reason").toBeInvalid();
    await userEvent.type(reason, "three frauds found");
    await confirm("Request activation");
    expect(await screen.findByText(/another user must approve/u)).toBeVisible();
    await waitFor(() =>
      expect(screen.getByRole("button", { name: "Request activation" })).toHaveAttribute("aria-disabled", "true"),
    );
  });

  test("the notification appears even if the dialog was closed", async () => {
    open(inState("ACTIVE"), APPROVER);
    const answer = delayAnswer(inState("PAUSE"), 200);
    await press("Pause");
    await confirm("Pause");
    await confirm("Cancel");
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    answer();
    expect(await screen.findByText("Rule 1: paused")).toBeVisible();
  });
});

describe("a change by another user", () => {
  test("is reported even if the dialog was closed, and the rule is read again", async () => {
    const answer = delayAnswer(CHANGED, 412);
    open(inState("ACTIVE", { revision: 3 }), APPROVER);
    stored = inState("ACTIVE", { revision: 4 });
    await press("Pause");
    await confirm("Pause");
    await confirm("Cancel");
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    answer();
    expect(await screen.findByText("rule 1 has been changed by 'abe'")).toBeVisible();
    expect(await screen.findByText("version 4")).toBeVisible();
  });

  test("refuses the transition, which succeeds after the new revision was shown", async () => {
    open(inState("SHADOW", { revision: 3 }), APPROVER);
    stored = inState("SHADOW", { revision: 4 });
    await press("Activate");
    await confirm("Activate");
    const trouble = await within(await dialog()).findByRole("alert");
    expect(trouble).toHaveTextContent("Changed by another user");
    expect(trouble).toHaveTextContent("rule 1 has been changed by 'abe'");
    await confirm("Cancel");
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await press("Activate");
    await confirm("Activate");
    await waitFor(() => expect(buttonTexts()).toContain("Pause"));
    expect(sent.map(({ ifMatch }) => ifMatch)).toEqual(['"3"', '"4"']);
  });

  test("made while the dialog is open refuses the transition", async () => {
    const client = open(inState("SHADOW", { revision: 3 }), APPROVER);
    await press("Activate");
    await dialog();
    stored = inState("SHADOW", { revision: 4 });
    client.setQueryData(keys.rule(1), stored);
    expect(await screen.findByText("version 4")).toBeInTheDocument();
    await confirm("Activate");
    expect(await within(await dialog()).findByRole("alert")).toHaveTextContent("Changed by another user");
    expect(sent).toMatchObject([{ ifMatch: '"3"' }]);
  });
});
