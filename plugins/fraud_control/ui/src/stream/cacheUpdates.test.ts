// @vitest-environment jsdom
import { http, HttpResponse } from "msw";
import { expect, test, vi } from "vitest";
import { keys } from "../api/keys";
import type { Activation, RuleDetail, Rules } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { newClient } from "../testing/renderPage";
import { detail, rule } from "../testing/samples";
import { applyActivation, refreshRule } from "./cacheUpdates";

const server = mockServer();

const PENDING: Activation = {
  logVersion: 8,
  ruleId: 1,
  listName: null,
  mapName: null,
  status: "PENDING",
  reasons: [],
  batchId: null,
  time: null,
  warmUp: null,
};

function listOf(...rows: ReturnType<typeof rule>[]) {
  const client = newClient();
  client.setQueryData<Rules>(keys.ruleList, { items: rows, next: null });
  return client;
}

const listed = (client: ReturnType<typeof newClient>) => client.getQueryData<Rules>(keys.ruleList)?.items ?? [];

test("a rule is live only after the detector's answer to this version", () => {
  const client = listOf(rule({ activation: PENDING }));
  applyActivation(client, { ...PENDING, logVersion: 7, status: "LIVE" });
  expect(listed(client)[0]?.activation?.status).toBe("PENDING");
  applyActivation(client, { ...PENDING, status: "LIVE", batchId: 3, time: 1 });
  expect(listed(client)[0]?.activation?.status).toBe("LIVE");
});

test("a changed rule is read again and replaced; a deleted rule disappears", async () => {
  const client = listOf(rule({ ruleId: 1 }), rule({ ruleId: 3 }));
  server.use(
    http.get("*/api/rules/2", () => HttpResponse.json(detail({ ruleId: 2 }))),
    http.get("*/api/rules/3", () => HttpResponse.json(detail({ ruleId: 3, state: "DELETE" }))),
  );
  await refreshRule(client, { ruleId: 2, revision: 1, listName: null, mapName: null });
  await refreshRule(client, { ruleId: 3, revision: 9, listName: null, mapName: null });
  expect(listed(client).map((row) => row.ruleId)).toEqual([1, 2]);
});

test("an answer to an unknown version makes the rule be read again", async () => {
  const client = listOf(rule());
  server.use(
    http.get("*/api/rules/1", () =>
      HttpResponse.json(detail({ revision: 4, activation: { ...PENDING, status: "LIVE" } })),
    ),
  );
  applyActivation(client, { ...PENDING, status: "LIVE" });
  await vi.waitFor(() => expect(listed(client)[0]?.revision).toBe(4));
});

test("an answer of the detector is kept if the rule was read before it", async () => {
  const client = listOf(rule({ activation: PENDING }));
  client.setQueryData(keys.rule(1), detail({ activation: PENDING }));
  const answers: (() => void)[] = [];
  const answered = new Promise<void>((resolve) => answers.push(resolve));
  server.use(
    http.get("*/api/rules/1", async () => {
      await answered;
      return HttpResponse.json(detail({ activation: PENDING }));
    }),
  );
  const read = refreshRule(client, { ruleId: 1, revision: 1, listName: null, mapName: null });
  applyActivation(client, { ...PENDING, status: "LIVE", batchId: 3, time: 1 });
  answers.forEach((answer) => answer());
  await read;
  expect(listed(client)[0]?.activation?.status).toBe("LIVE");
  expect(client.getQueryData<RuleDetail>(keys.rule(1))?.activation?.status).toBe("LIVE");
});
