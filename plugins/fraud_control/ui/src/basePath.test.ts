import { expect, test } from "vitest";
import { airflowPath, BASE_PATH, prefixOf } from "./basePath";

test("the address of a page has the path of Airflow before the path of the pages", () => {
  expect(prefixOf("/fraud/control/")).toBe("");
  expect(prefixOf("/af/fraud/control/rules/5")).toBe("/af");
  expect(prefixOf("/a/b/fraud/control/lists/fraud/control")).toBe("/a/b");
  expect(prefixOf("/")).toBe("");
});

test("without a path of Airflow, all paths begin at the root", () => {
  expect(BASE_PATH).toBe("/fraud/control");
  expect(airflowPath("/fraud/runbooks/stalled")).toBe("/fraud/runbooks/stalled");
  expect(airflowPath("https://airflow.example/af/fraud/logs")).toBe("https://airflow.example/af/fraud/logs");
});
