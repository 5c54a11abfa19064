// @vitest-environment jsdom
import { http, HttpResponse } from "msw";
import { expect, test, vi } from "vitest";
import { keys } from "../api/keys";
import type { Activation, Rules } from "../api/types";
import { detail, rule } from "../testing/samples";
import { serve } from "../testing/serve";
import { newClient } from "../testing/show";
import { counted, operated, ruleChanged } from "./caches";

const server = serve();

const PENDING: Activation = { logVersion: 8, ruleId: 1, status: "PENDING", reasons: [], batchId: null, time: null };

function listOf(...rows: ReturnType<typeof rule>[]) {
  const client = newClient();
  client.setQueryData<Rules>(keys.ruleList, { items: rows, next: null });
  return client;
}

const listed = (client: ReturnType<typeof newClient>) => client.getQueryData<Rules>(keys.ruleList)?.items ?? [];

test("a rule is live only once the detector has said so of this very version", () => {
  const client = listOf(rule({ activation: PENDING }));
  operated(client, { ...PENDING, logVersion: 7, status: "LIVE" });
  expect(listed(client)[0]?.activation?.status).toBe("PENDING");
  operated(client, { ...PENDING, status: "LIVE", batchId: 3, time: 1 });
  expect(listed(client)[0]?.activation?.status).toBe("LIVE");
});

test("a changed rule is read again and takes its place; a deleted one goes", async () => {
  const client = listOf(rule({ ruleId: 1 }), rule({ ruleId: 3 }));
  server.use(
    http.get("*/api/rules/2", () => HttpResponse.json(detail({ ruleId: 2 }))),
    http.get("*/api/rules/3", () => HttpResponse.json(detail({ ruleId: 3, state: "DELETE" }))),
  );
  await ruleChanged(client, { ruleId: 2, revision: 1 });
  await ruleChanged(client, { ruleId: 3, revision: 9 });
  expect(listed(client).map((row) => row.ruleId)).toEqual([1, 2]);
});

test("news of a version that is not known yet has the rule read again", async () => {
  const client = listOf(rule());
  server.use(
    http.get("*/api/rules/1", () =>
      HttpResponse.json(detail({ revision: 4, activation: { ...PENDING, status: "LIVE" } })),
    ),
  );
  operated(client, { ...PENDING, status: "LIVE" });
  await vi.waitFor(() => expect(listed(client)[0]?.revision).toBe(4));
});

test("alerts count in the minute that runs", () => {
  const client = listOf(rule({ alertsLastHour: [0, 1] }), rule({ ruleId: 2, alertsLastHour: [5, 5] }));
  counted(client, [1, 1]);
  expect(listed(client).map((row) => row.alertsLastHour)).toEqual([
    [0, 3],
    [5, 5],
  ]);
});
