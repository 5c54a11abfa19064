// @vitest-environment jsdom
import { Notifications, notifications } from "@mantine/notifications";
import { useQuery } from "@tanstack/react-query";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { afterEach, describe, expect, test } from "vitest";
import { API, get } from "../api/http";
import { keys } from "../api/keys";
import type { Approval, Me, RuleDetail } from "../api/types";
import { ANALYST, APPROVER, approval, detail, VIEWER } from "../testing/samples";
import { serve } from "../testing/serve";
import { newClient, show } from "../testing/show";
import { PendingApproval } from "./PendingApproval";

/** What waits on the server, who asks it, and what it was sent. */
let waits: Approval | null = null;
let asking = ANALYST;
let sent: { decision: unknown; body: unknown }[] = [];

serve(
  http.get(`*${API}/rules/1`, () => HttpResponse.json(detail({ pendingApproval: waits }))),
  http.post(`*${API}/approvals/5/:decision`, async ({ request, params }) => {
    sent.push({ decision: params.decision, body: await request.json() });
    if (waits === null) {
      const title = "This cannot be done now";
      return HttpResponse.json({ title, detail: "approval 5 has been approved by 'pat' already" }, { status: 409 });
    }
    const own = waits.requestedBy === asking.user;
    const decision = params.decision === "approve" ? "APPROVED" : own ? "WITHDRAWN" : "REJECTED";
    const decided = { ...waits, decision, decidedBy: asking.user };
    waits = null;
    return HttpResponse.json(decided);
  }),
);

afterEach(() => {
  sent = [];
  notifications.clean();
});

/** What waits about rule 1, as its page has it. */
function OfTheRule({ me }: { me: Me }) {
  const { data } = useQuery({ queryKey: keys.rule(1), queryFn: ({ signal }) => get<RuleDetail>("/rules/1", signal) });
  return (
    <>
      {data?.pendingApproval && <PendingApproval approval={data.pendingApproval} me={me} />}
      <Notifications />
    </>
  );
}

/** Approval 5, asked for by this person, as `me` sees it. */
function open(requestedBy: string, me: Me, author = requestedBy) {
  waits = approval(5, { requestedBy, author });
  asking = me;
  const client = newClient();
  client.setQueryData(keys.rule(1), detail({ pendingApproval: waits }));
  show(<OfTheRule me={me} />, { client });
}

const offered = () => screen.queryAllByRole("button").map((each) => each.textContent);
const press = (name: string) => userEvent.click(screen.getByRole("button", { name }));

describe("what is offered", () => {
  const fourEyes = (me: Me): Me => ({ ...me, fourEyes: true });
  test.each<[string, string, Me, string[], RegExp | null]>([
    ["an analyst who asked", "ann", ANALYST, ["Withdraw"], /^An approver must decide/u],
    ["an analyst who did not ask", "abe", ANALYST, [], /^An approver must decide/u],
    ["who asked and may only read since", "vera", VIEWER, [], /^An approver must decide/u],
    ["an approver who did not ask", "abe", fourEyes(APPROVER), ["Approve", "Reject"], null],
    ["an approver who asked", "ben", APPROVER, ["Approve", "Withdraw"], null],
    ["an approver who asked, with four eyes", "ben", fourEyes(APPROVER), ["Withdraw"], /you requested this change\.$/u],
  ])("to %s", (_, requestedBy, me, buttons, told) => {
    open(requestedBy, me);
    expect(offered()).toEqual(buttons);
    expect(screen.queryAllByText(/must decide/u).map((each) => each.textContent)).toEqual(
      told ? [expect.stringMatching(told)] : [],
    );
  });

  test.each([
    [true, ["Reject"], ["Another approver must decide: you wrote this change."]],
    [false, ["Approve", "Reject"], []],
  ])("to an approver who wrote what another asks for, with four eyes: %s", (fourEyes, buttons, told) => {
    open("abe", { ...APPROVER, fourEyes }, APPROVER.user);
    expect(offered()).toEqual(buttons);
    expect(screen.queryAllByText(/must decide/u).map((each) => each.textContent)).toEqual(told);
  });
});

describe("what is done", () => {
  test("a request is withdrawn with the reason; it says so, and nothing waits any more", async () => {
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
    expect(sent).toEqual([{ decision, body: { comment: "" } }]);
  });

  test("what somebody has decided meanwhile is told, and waits here no longer", async () => {
    open("ann", ANALYST);
    waits = null;
    await press("Withdraw");
    expect(await screen.findByText("approval 5 has been approved by 'pat' already")).toBeVisible();
    await waitFor(() => expect(screen.queryByText(/^Awaiting approval/u)).toBeNull());
  });
});
