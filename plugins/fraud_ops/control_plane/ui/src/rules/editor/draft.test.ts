import { expect, test } from "vitest";
import { parseExactly } from "../../api/exactJson";
import { drafted, inForm, request, withMembers, written } from "./draft";

const YAML = "# watched closely\nruleId: 3\nlimit: 20 # euros\ngroupingKeyNames: [payeeId]\nwindowMinutes: 20\n";

test("a change in the form changes only its member in the text, comments stay", () => {
  const draft = withMembers(written("yaml", YAML), { limit: 50 });
  expect(draft.text).toBe(YAML.replace("limit: 20", "limit: 50"));
  expect(draft.document?.["limit"]).toBe(50);
});

test("a member without a value leaves the text", () => {
  const draft = withMembers(written("yaml", YAML), { windowMinutes: undefined, windowSeconds: 30 });
  expect(draft.document).not.toHaveProperty("windowMinutes");
  expect(draft.text).toContain("windowSeconds: 30");
  expect(draft.text).not.toContain("windowMinutes");
});

test("a change in the text changes the document", () => {
  expect(written("yaml", YAML.replace("20 #", "7.5 #")).document?.["limit"]).toBe(7.5);
  expect(written("json", '{"ruleId": 3}').document).toEqual({ ruleId: 3 });
});

test("text that does not parse says why and leaves the form alone", () => {
  const draft = written("yaml", "ruleId: [1\nlimit: ]: 3");
  expect(draft.document).toBeNull();
  expect(draft.fault).not.toBeNull();
  expect(withMembers(draft, { limit: 5 })).toBe(draft);
  expect(written("json", "[1]").fault).toMatch(/mapping/);
});

test("exact numbers survive an edit of another member, and the way to JSON", () => {
  const text = "ruleId: 9223372036854775807\nlimit: 12345678901234567890.25\nname: a\n";
  const draft = withMembers(written("yaml", text), { name: "b" });
  expect(draft.text).toContain("9223372036854775807");
  expect(draft.text).toContain("12345678901234567890.25");
  const json = inForm(draft, "json", null);
  expect(json.text).toContain('"ruleId": 9223372036854775807');
  expect(parseExactly(json.text)).toEqual(json.document);
});

test("words that YAML 1.1 reads as something else are written so that they stay words", () => {
  const draft = drafted("yaml", { name: "yes", owner: "12:30" });
  expect(written("yaml", draft.text).document).toEqual({ name: "yes", owner: "12:30" });
});

test("the one-line form is the server's to read", () => {
  const line = inForm(written("yaml", YAML), "line", "3,(active),(payeeId),,(paymentAmount),(SUM),(>),(20),(20)");
  expect(request(line)).toEqual({ text: line.text });
  expect(inForm(written("yaml", YAML), "line", null).form).toBe("yaml");
  expect(written("line", "3,(active)").document).toBeNull();
  expect(inForm(line, "yaml", null).document?.["limit"]).toBe(20);
});
