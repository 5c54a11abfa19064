// @vitest-environment jsdom
import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Activation, WarmUp } from "../api/types";
import { formatTime } from "../format";
import { WarmUpChip } from "./WarmUpChip";

const TIME = 1_700_000_000_000;

function live(warmUp: Partial<WarmUp> | null, status: Activation["status"] = "LIVE"): Activation {
  const none = { progress: null, time: null, batchId: null, rows: 0, since: null, reason: "" };
  const report = warmUp && { state: "REQUESTED" as const, ...none, ...warmUp };
  return {
    logVersion: 7,
    ruleId: 1,
    listName: null,
    mapName: null,
    status,
    reasons: [],
    batchId: 2,
    time: TIME,
    warmUp: report,
  };
}

test.each<[Partial<WarmUp>, string, string]>([
  [{}, "Warm-up requested", "Windows lack the payments before this rule"],
  [{ state: "RUNNING", progress: 0.6 }, "Warming, 60%", "A job collects the payments before this rule"],
  [{ state: "RUNNING" }, "Warming, 0%", "A job collects the payments before this rule"],
  [
    { state: "WARM", time: TIME, rows: 1_234, since: TIME - 1 },
    `Warm since ${formatTime(TIME)}`,
    `1,234 earlier payments added, history complete from ${formatTime(TIME - 1)}`,
  ],
  [{ state: "WARM", time: TIME }, `Warm since ${formatTime(TIME)}`, "0 earlier payments added"],
  [{ state: "REFUSED", reason: "no archive" }, "Warm-up refused", "no archive"],
])("a rule with the warm-up %o shows %s", (warmUp, text, title) => {
  render(<WarmUpChip activation={live(warmUp)} />);
  expect(screen.getByText(text)).toHaveAttribute("title", title);
});

test.each([[null], [live(null)], [live({}, "REJECTED")], [live({}, "PENDING")]])(
  "a rule without a live warm-up shows nothing",
  (activation) => {
    const { container } = render(<WarmUpChip activation={activation} />);
    expect(container).toBeEmptyDOMElement();
  },
);
