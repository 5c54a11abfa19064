// @vitest-environment jsdom
import { Notifications } from "@mantine/notifications";
import { useQuery } from "@tanstack/react-query";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { afterEach, describe, expect, test } from "vitest";
import { API, get } from "../api/http";
import { keys } from "../api/keys";
import type { Approval, Me, RuleDetail } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { newClient, renderPage } from "../testing/renderPage";
import { ANALYST, approval, APPROVER, detail, VIEWER } from "../testing/samples";
import { PendingApproval } from "./PendingApproval";

/** The pending request on the server, the current user, and the requests that the server received. */
let pending: Approval | null = null;
let currentUser = ANALYST;
let sent: { decision: unknown; body: unknown }[] = [];

mockServer(
  http.get(`*${API}/rules/1`, () => HttpResponse.json(detail({ pendingApproval: pending }))),
  http.post(`*${API}/approvals/5/:decision`, async ({ request, params }) => {
    sent.push({ decision: params.decision, body: await request.json() });
    if (pending === null) {
      const title = "Not possible in the current state";
      return HttpResponse.json({ title, detail: "approval 5 has been approved by 'pat' already" }, { status: 409 });
    }
    const own = pending.requestedBy === currentUser.user;
    const decision = params.decision === "approve" ? "APPROVED" : own ? "WITHDRAWN" : "REJECTED";
    const decided = { ...pending, decision, decidedBy: currentUser.user };
    pending = null;
    return HttpResponse.json(decided);
  }),
);

afterEach(() => {
  sent = [];
});

/** The pending request of rule 1, with the query of its page. */
function RuleFixture({ me }: { me: Me }) {
  const { data } = useQuery({ queryKey: keys.rule(1), queryFn: ({ signal }) => get<RuleDetail>("/rules/1", signal) });
  return (
    <>
      {data?.pendingApproval && <PendingApproval approval={data.pendingApproval} me={me} />}
      <Notifications />
    </>
  );
}

/** Opens approval 5 of this requester as the user `me`. */
function open(requestedBy: string, me: Me, contributors = [requestedBy]) {
  pending = approval(5, { requestedBy, author: requestedBy, contributors });
  currentUser = me;
  const client = newClient();
  client.setQueryData(keys.rule(1), detail({ pendingApproval: pending }));
  renderPage(<RuleFixture me={me} />, { client });
}

const buttonTexts = () => screen.queryAllByRole("button").map((each) => each.textContent);
const press = (name: string) => userEvent.click(screen.getByRole("button", { name }));

describe("buttons", () => {
  const fourEyes = (me: Me): Me => ({ ...me, fourEyes: true });
  test.each<[string, string, Me, string[], RegExp | null]>([
    ["an analyst who is the requester", "ann", ANALYST, ["Withdraw"], /^An approver must decide/u],
    ["another analyst", "abe", ANALYST, [], /^An approver must decide/u],
    ["a requester who is now a viewer", "vera", VIEWER, [], /^An approver must decide/u],
    ["another approver", "abe", fourEyes(APPROVER), ["Approve", "Reject"], null],
    ["an approver who is the requester", "ben", APPROVER, ["Approve", "Withdraw"], null],
    [
      "an approver who is the requester, with four eyes",
      "ben",
      fourEyes(APPROVER),
      ["Withdraw"],
      /you requested this change\.$/u,
    ],
  ])("for %s", (_, requestedBy, me, buttons, note) => {
    open(requestedBy, me);
    expect(buttonTexts()).toEqual(buttons);
    expect(screen.queryAllByText(/must decide/u).map((each) => each.textContent)).toEqual(
      note ? [expect.stringMatching(note)] : [],
    );
  });

  test.each([
    [
      true,
      ["Reject"],
      ["Another approver must decide: you changed this rule, or a list or map that it names, since the last approval."],
    ],
    [false, ["Approve", "Reject"], []],
  ])("for an approver who wrote a part of another user's request, with four eyes: %s", (fourEyes, buttons, note) => {
    open("abe", { ...APPROVER, fourEyes }, ["abe", APPROVER.user]);
    expect(buttonTexts()).toEqual(buttons);
    expect(screen.queryAllByText(/must decide/u).map((each) => each.textContent)).toEqual(note);
  });
});

describe("decisions", () => {
  test("a request is withdrawn with the comment, and disappears", async () => {
    open("ann", ANALYST);
    await userEvent.type(screen.getByRole("textbox", { name: "Comment" }), "the limit is too low");
    await press("Withdraw");
    expect(await screen.findByText("Withdrawn")).toBeVisible();
    expect(sent).toEqual([{ decision: "reject", body: { comment: "the limit is too low" } }]);
    await waitFor(() => expect(screen.queryByText(/^Awaiting approval/u)).toBeNull());
  });

  test.each([
    ["Approve", "approve", "Approved"],
    ["Reject", "reject", "Rejected"],
  ])("%s decides a request of another user", async (button, decision, message) => {
    open("abe", APPROVER);
    await press(button);
    expect(await screen.findByText(message)).toBeVisible();
    const basis = decision === "approve" ? { basis: { "rule 1": 3 } } : {};
    expect(sent).toEqual([{ decision, body: { comment: "", ...basis } }]);
  });

  test("a decision by another user is reported, and the request disappears", async () => {
    open("ann", ANALYST);
    pending = null;
    await press("Withdraw");
    expect(await screen.findByText("approval 5 has been approved by 'pat' already")).toBeVisible();
    await waitFor(() => expect(screen.queryByText(/^Awaiting approval/u)).toBeNull());
  });
});
