// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { afterEach, expect, test } from "vitest";
import { API } from "../api/http";
import type { Me, RuleDetail } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ANALYST, APPROVER, approval, detail, VIEWER } from "../testing/samples";
import { RolloutButton } from "./RolloutButton";

let sent: { ifMatch: string | null; body: { text: string; comment: string } }[] = [];

mockServer(
  http.put(`*${API}/rules/1`, async ({ request }) => {
    sent.push({
      ifMatch: request.headers.get("If-Match"),
      body: (await request.json()) as { text: string; comment: string },
    });
    return HttpResponse.json(detail(), { status: 202 });
  }),
);

afterEach(() => {
  sent = [];
});

const partial = (members: Partial<RuleDetail> = {}) =>
  detail({ state: "ACTIVE", document: { ruleId: 1, limit: 20, rolloutPercent: 5 }, ...members });

const show = (rule: RuleDetail, me: Me, unsaved = false) =>
  renderPage(<RolloutButton rule={rule} me={me} unsaved={unsaved} />);

test("an analyst requests the next step with a reason, and the rest of the rule stays", async () => {
  const rule = partial();
  show(rule, ANALYST);
  await userEvent.click(screen.getByRole("button", { name: "Request rollout to 20 %" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.type(dialog.getByRole("textbox"), "no false alerts");
  await userEvent.click(dialog.getByRole("button", { name: "Request rollout to 20 %" }));
  await waitFor(() => expect(sent).toHaveLength(1));
  expect(sent[0]?.ifMatch).toBe(`"${rule.revision}"`);
  expect(sent[0]?.body.comment).toBe("no false alerts");
  expect(JSON.parse(sent[0]?.body.text ?? "")).toEqual({ ruleId: 1, limit: 20, rolloutPercent: 20 });
});

test("an approver without four eyes takes the step alone", () => {
  show(partial(), { ...APPROVER, fourEyes: false });
  expect(screen.getByRole("button", { name: "Roll out to 20 %" })).toBeEnabled();
});

test("no step while an edit is unsaved or a request is pending", () => {
  show(partial({ pendingApproval: approval(1) }), ANALYST);
  expect(screen.getByRole("button", { name: "Request rollout to 20 %" })).toHaveAttribute("aria-disabled", "true");
  show(partial(), { ...APPROVER, fourEyes: false }, true);
  expect(screen.getByRole("button", { name: "Roll out to 20 %" })).toHaveAttribute("aria-disabled", "true");
});

test("no button without a rollout, for a viewer, and for a deleted rule", () => {
  show(detail({ state: "ACTIVE" }), ANALYST);
  show(partial({ state: "DELETE" }), ANALYST);
  show(partial(), VIEWER);
  expect(screen.queryByRole("button")).not.toBeInTheDocument();
});
