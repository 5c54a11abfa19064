import { expect, test } from "vitest";
import { alert } from "../testing/samples";
import { type AlertFilter, filterOf, isLive, matches, parametersOf } from "./alertSearch";

const NOW = 1_700_001_300_000;
const ALL = filterOf(new URLSearchParams());

test("the address and the filter are the same in both directions", () => {
  for (const address of [
    "",
    "ruleId=7&text=ab&since=24h&until=1700000000000&minAmount=1.5&maxAmount=9&verdict=FRAUD",
    "entity=payeeId%3A12&severity=high&severity=low&shadow=false&corrections=false&snoozed=true&sort=amount",
  ]) {
    expect(new URLSearchParams(parametersOf(filterOf(new URLSearchParams(address)))).toString()).toBe(address);
  }
});

test("new alerts join only the list of the newest alerts", () => {
  expect(isLive(ALL)).toBe(true);
  expect(isLive({ ...ALL, sort: "amount" })).toBe(false);
  expect(isLive({ ...ALL, until: "1h" })).toBe(false);
});

const CASES: [Partial<AlertFilter>, boolean][] = [
  [{}, true],
  [{ ruleId: 2 }, false],
  [{ text: "12" }, true],
  [{ text: "1" }, false],
  [{ text: "AB-" }, true],
  [{ text: "b-1" }, false],
  [{ entity: "payeeId:12" }, true],
  [{ entity: "payeeId:13" }, false],
  [{ since: "5m" }, true],
  [{ since: "1m" }, false],
  [{ since: String(NOW), until: "" }, false],
  [{ until: String(NOW) }, true],
  [{ severity: ["high"] }, true],
  [{ severity: ["low", "other"] }, false],
  [{ minAmount: "11.5", maxAmount: "11.5" }, true],
  [{ minAmount: "11.51" }, false],
  [{ maxAmount: "11" }, false],
  [{ verdict: "UNREVIEWED" }, true],
  [{ verdict: "FRAUD" }, false],
  [{ shadow: true }, false],
];

test.each(CASES)("%j matches: %s", (members, expected) => {
  const found = alert("a", {
    violatedRule: { severity: "High" },
    triggeringEvent: { transactionId: "ab-1", paymentAmount: 11.5 },
  });
  expect(matches(found, { ...ALL, ...members }, "paymentAmount", NOW)).toBe(expected);
});

test("an alert without a known severity or amount", () => {
  const bare = alert("a", { violatedRule: {}, triggeringEvent: {} });
  expect(matches(bare, { ...ALL, severity: ["other"] }, "paymentAmount", NOW)).toBe(true);
  expect(matches(bare, { ...ALL, minAmount: "0" }, "paymentAmount", NOW)).toBe(false);
});

test("snoozed alerts are hidden unless the filter shows them", () => {
  expect(matches(alert("a", { snoozed: true }), ALL, null)).toBe(false);
  expect(matches(alert("a", { snoozed: true }), { ...ALL, snoozed: true }, null)).toBe(true);
});
