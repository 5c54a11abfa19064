import { expect, test } from "vitest";
import { parseExactly } from "../../api/exactJson";
import { draftOfDocument, draftOfText, inFormat, membersWithoutLine, requestBody, withMembers } from "./draft";

const YAML = "# watched closely\nruleId: 3\nlimit: 20 # euros\ngroupingKeyNames: [payeeId]\nwindowMinutes: 20\n";

test("a change in the form changes only its member in the text, and keeps comments", () => {
  const draft = withMembers(draftOfText("yaml", YAML), { limit: 50 });
  expect(draft.text).toBe(YAML.replace("limit: 20", "limit: 50"));
  expect(draft.document?.["limit"]).toBe(50);
});

test("a member without a value leaves the text", () => {
  const draft = withMembers(draftOfText("yaml", YAML), { windowMinutes: undefined, windowSeconds: 30 });
  expect(draft.document).not.toHaveProperty("windowMinutes");
  expect(draft.text).toContain("windowSeconds: 30");
  expect(draft.text).not.toContain("windowMinutes");
});

test("a change in the text changes the document", () => {
  expect(draftOfText("yaml", YAML.replace("20 #", "7.5 #")).document?.["limit"]).toBe(7.5);
  expect(draftOfText("json", '{"ruleId": 3}').document).toEqual({ ruleId: 3 });
});

test("text that does not parse has an error and leaves the form alone", () => {
  const draft = draftOfText("yaml", "ruleId: [1\nlimit: ]: 3");
  expect(draft.document).toBeNull();
  expect(draft.parseError).not.toBeNull();
  expect(withMembers(draft, { limit: 5 })).toBe(draft);
  expect(draftOfText("json", "[1]").parseError).toMatch(/mapping/);
});

test("exact numbers survive an edit of another member and the conversion to JSON", () => {
  const text = "ruleId: 9223372036854775807\nlimit: 12345678901234567890.25\nname: a\n";
  const draft = withMembers(draftOfText("yaml", text), { name: "b" });
  expect(draft.text).toContain("9223372036854775807");
  expect(draft.text).toContain("12345678901234567890.25");
  const json = inFormat(draft, "json", null);
  expect(json.text).toContain('"ruleId": 9223372036854775807');
  expect(parseExactly(json.text)).toEqual(json.document);
});

test("words that YAML 1.1 reads as other types are quoted", () => {
  const draft = draftOfDocument("yaml", { name: "yes", owner: "12:30" });
  expect(draftOfText("yaml", draft.text).document).toEqual({ name: "yes", owner: "12:30" });
});

test("the server parses the one-line form", () => {
  const line = inFormat(draftOfText("yaml", YAML), "line", "3,(active),(payeeId),,(paymentAmount),(SUM),(>),(20),(20)");
  expect(requestBody(line)).toEqual({ text: line.text });
  expect(inFormat(draftOfText("yaml", YAML), "line", null).format).toBe("yaml");
  expect(draftOfText("line", "3,(active)").document).toBeNull();
  expect(inFormat(line, "yaml", null).document?.["limit"]).toBe(20);
});

test("the members that one line cannot express", () => {
  expect(membersWithoutLine({ ...draftOfText("yaml", YAML).document, source: "ui", filter: null })).toEqual([]);
  expect(membersWithoutLine({ ruleId: 3, severity: "high", warmUp: true })).toEqual(["severity", "warmUp"]);
  expect(membersWithoutLine(null)).toEqual([]);
});
