// @vitest-environment jsdom
import { http, HttpResponse } from "msw";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { mockServer } from "../testing/mockServer";
import type { StreamState } from "./eventStream";
import { SharedStream } from "./sharedStream";

const URL_ = "http://localhost/stream";

/** The open connections: each with its `Last-Event-ID` and a function that sends an event. */
const connections: { since: string | null; send: (id: string, name?: string) => void }[] = [];

mockServer(
  http.get(URL_, ({ request }) => {
    const body = new ReadableStream({
      start(controller) {
        const send = (id: string, name = "alert") =>
          controller.enqueue(new TextEncoder().encode(`event: ${name}\nid: ${id}\ndata: {}\n\n`));
        const connection = { since: request.headers.get("Last-Event-ID"), send };
        connections.push(connection);
        request.signal.addEventListener("abort", () => connections.splice(connections.indexOf(connection), 1));
      },
    });
    return new HttpResponse(body, { headers: { "Content-Type": "text/event-stream" } });
  }),
);

/** The locks of a browser: one holder at a time, in the order of the requests. */
function browserLocks() {
  let last = Promise.resolve();
  return {
    request(_: string, { signal }: { signal: AbortSignal }, held: () => Promise<void>) {
      const turn = last.then(() => (signal.aborted ? undefined : held()));
      last = turn;
      return turn;
    },
  };
}

class Tab {
  readonly events: string[] = [];
  readonly states: StreamState[] = [];
  readonly stream = new SharedStream(URL_, {
    event: ({ id, name }) => this.events.push(`${name} ${id ?? ""}`),
    state: (state) => this.states.push(state),
  });
}

let tabs: Tab[] = [];

function open(): Tab {
  const tab = new Tab();
  tabs.push(tab);
  return tab;
}

const only = () => {
  const [connection] = connections;
  if (connections.length !== 1 || !connection) throw new Error(`${connections.length} connections`);
  return connection;
};

beforeEach(() => {
  Object.assign(navigator, { locks: browserLocks() });
});

afterEach(async () => {
  tabs.forEach((tab) => tab.stream.close());
  tabs = [];
  await expect.poll(() => connections).toHaveLength(0);
  Reflect.deleteProperty(navigator, "locks");
  vi.restoreAllMocks();
});

test("all tabs get the events of one connection", async () => {
  const first = open();
  await expect.poll(() => first.states).toContain("open");
  const others = [open(), open()];
  for (const tab of others) await expect.poll(() => tab.states).toContain("open");
  only().send("1", "begin");
  only().send("2");
  for (const tab of tabs) await expect.poll(() => tab.events).toEqual(["begin 1", "alert 2"]);
});

test("another tab continues after the last event, without a gap for the others", async () => {
  const first = open();
  await expect.poll(() => first.states).toContain("open");
  const [second, third] = [open(), open()];
  for (const tab of tabs) await expect.poll(() => tab.states).toContain("open");
  only().send("7");
  for (const tab of tabs) await expect.poll(() => tab.events).toEqual(["alert 7"]);
  first.stream.close();
  await expect.poll(() => connections.map(({ since }) => since)).toEqual(["7"]);
  only().send("8");
  for (const tab of [second, third]) await expect.poll(() => tab.events).toEqual(["alert 7", "alert 8"]);
  expect(second.states).not.toContain("lost");
  expect(first.events).toEqual(["alert 7"]);
});

test("a tab that missed an event gets a gap", async () => {
  const first = open();
  await expect.poll(() => first.states).toContain("open");
  only().send("7");
  await expect.poll(() => first.events).toHaveLength(1);
  const late = open();
  await expect.poll(() => late.states).toContain("open");
  const channel = new BroadcastChannel(`fraud-rules ${URL_}`);
  channel.postMessage({ kind: "event", event: { id: "9", name: "alert", data: "{}" }, before: "8" });
  await expect.poll(() => late.events).toEqual(["gap 9"]);
  channel.close();
});

test("while all tabs are hidden there is no connection", async () => {
  const tab = open();
  await expect.poll(() => connections).toHaveLength(1);
  only().send("7");
  await expect.poll(() => tab.events).toHaveLength(1);
  const visibility = vi.spyOn(document, "visibilityState", "get").mockReturnValue("hidden");
  document.dispatchEvent(new Event("visibilitychange"));
  await expect.poll(() => connections, { timeout: 10_000 }).toHaveLength(0);
  visibility.mockReturnValue("visible");
  document.dispatchEvent(new Event("visibilitychange"));
  await expect.poll(() => connections.map(({ since }) => since)).toEqual(["7"]);
});
