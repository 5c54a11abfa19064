import { expect, test } from "vitest";
import { rule } from "../testing/samples";
import { contentChanges, sameContent } from "./changes";

test("a rollback restores neither state nor source", () => {
  const { document } = rule();
  const old = { ...document, ruleState: "DRAFT", source: "file", limit: 30 };
  expect(contentChanges({ ...document, ruleState: "ACTIVE" }, old)).toEqual([
    { field: "limit", before: 20, after: 30 },
  ]);
  expect(sameContent({ ...document, ruleState: "ACTIVE" }, { ...document, ruleState: "DRAFT" })).toBe(true);
});
