// @vitest-environment jsdom
import { act } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { useRules } from "../api/hooks";
import { API } from "../api/http";
import { newQueryClient } from "../api/queryClient";
import DetectorPage from "../detector/DetectorPage";
import ListsPage from "../lists/ListsPage";
import { LIST } from "../lists/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { alert, ANALYST, detail, liveness, rule, SCHEMA } from "../testing/samples";
import { StreamProvider } from "./StreamProvider";

// Several events arrive each second, as with a busy detector. A page must read as often as without them.
const reads = new Map<string, number>();
let send: (name: string, data: object) => void = () => undefined;

const PROGRESS = {
  at: 0,
  status: null,
  gapMs: 25_000,
  points: [],
  late: [],
  quarantine: [],
  readers: [],
  faults: [],
  unreadable: {},
};
const DRIFT = { inStep: true, settled: true, outboxPending: 0, oldestPendingMs: null, behind: 0, behindSince: null };
const ANSWERS: Record<string, object> = {
  "/me": ANALYST,
  "/schema": SCHEMA,
  "/liveness": liveness({ severity: "NONE" }),
  "/progress": PROGRESS,
  "/alarms": { items: [], alarmReceivers: [] },
  "/drift": { ...DRIFT, differences: [], listDifferences: [], mapDifferences: [] },
  "/rules/1": detail(),
  "/rules": { items: [rule()], next: null },
  "/refused": { items: [], next: null },
  "/lists": { items: [], next: null },
  "/approvals": { items: [], next: null },
};

mockServer(
  http.get(`*${API}/alerts/stream`, () => {
    const body = new ReadableStream({
      start(controller) {
        let id = 0;
        send = (name, data) => {
          id += 1;
          const event = `id: ${id}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
          controller.enqueue(new TextEncoder().encode(event));
        };
      },
    });
    return new HttpResponse(body, { headers: { "Content-Type": "text/event-stream" } });
  }),
  http.get(`*${API}/*`, async ({ request }) => {
    const path = new URL(request.url).pathname.slice(API.length);
    if (path === "/lists") await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
    reads.set(path, (reads.get(path) ?? 0) + 1);
    return HttpResponse.json(ANSWERS[path] ?? { items: [], next: null });
  }),
);

const SLOW_MS = 2_500;
const realTimeout = setTimeout;

beforeEach(() => {
  reads.clear();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] });
});

afterEach(() => {
  vi.useRealTimers();
});

/** Lets the time pass, and calls `each` in every second. */
async function pass(seconds: number, each: (second: number) => void = () => undefined) {
  for (let second = 0; second < seconds; second += 1) {
    each(second);
    for (let step = 0; step < 2; step += 1) {
      await act(async () => {
        await vi.advanceTimersByTimeAsync(500);
        await new Promise((resolve) => realTimeout(resolve));
      });
    }
  }
}

function open(page: React.ReactNode) {
  renderPage(<StreamProvider>{page}</StreamProvider>, { client: newQueryClient() });
}

const events = (second: number) => {
  send("progress", { time: second, rowsPerS: 50, lag: 0, p50: 1, p99: 2, batchMs: 3 });
  send("alert", alert(String(second)));
};

test("the Detector page reads the state again while a batch ends each second", async () => {
  open(<DetectorPage />);
  await pass(2);
  const before = reads.get("/progress") ?? 0;
  await pass(12, events);
  expect((reads.get("/progress") ?? 0) - before).toBeGreaterThanOrEqual(2);
});

function RuleCount() {
  return <p>{useRules().data?.items.length}</p>;
}

test("all rules are read again while a rule changes each second", async () => {
  open(<RuleCount />);
  await pass(2);
  const before = reads.get("/rules") ?? 0;
  await pass(130, (second) => {
    send("rules", { ruleId: 1, revision: second, listName: null, mapName: null });
    send("operation", { ...rule().activation, status: second % 2 ? "LIVE" : "PENDING" });
  });
  expect((reads.get("/rules") ?? 0) - before).toBeGreaterThanOrEqual(2);
});

test("an event does not cancel a read, so a slow read ends while a list changes each second", async () => {
  open(<ListsPage kind={LIST} />);
  await pass(4);
  const before = reads.get("/lists") ?? 0;
  await pass(12, (second) => send("rules", { ruleId: null, revision: second, listName: "mules", mapName: null }));
  const during = (reads.get("/lists") ?? 0) - before;
  expect(during).toBeGreaterThanOrEqual(2);
  expect(during).toBeLessThanOrEqual(6);
  await pass(8);
  expect((reads.get("/lists") ?? 0) - before).toBeGreaterThan(during);
});
