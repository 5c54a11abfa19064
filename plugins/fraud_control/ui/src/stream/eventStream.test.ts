import { http, HttpResponse } from "msw";
import { afterEach, expect, test, vi } from "vitest";
import { mockServer } from "../testing/mockServer";
import { EventStream, type StreamEvent, type StreamState } from "./eventStream";

const URL_ = "http://localhost/stream";
const server = mockServer();
const realTimeout = setTimeout;
const events: StreamEvent[] = [];
const states: StreamState[] = [];
let stream: EventStream | undefined;

afterEach(() => {
  stream?.close();
  events.length = 0;
  states.length = 0;
});

function open(): void {
  stream = new EventStream(URL_, { event: (event) => events.push(event), state: (state) => states.push(state) });
}

function response(...chunks: string[]) {
  return new HttpResponse(
    new ReadableStream({
      start(controller) {
        chunks.forEach((chunk) => controller.enqueue(new TextEncoder().encode(chunk)));
        controller.close();
      },
    }),
    { headers: { "Content-Type": "text/event-stream" } },
  );
}

test("a new connection continues after the last event", async () => {
  const lastEventIds: (string | null)[] = [];
  server.use(
    http.get(URL_, ({ request }) => {
      lastEventIds.push(request.headers.get("Last-Event-ID"));
      return lastEventIds.length === 1
        ? response("id: 7\nevent: alert\ndata: {}\n\n: ping\n\nid: 8\neve", "nt: alert\ndata: {}\n\nid: 9\nevent: al")
        : response("id: 9\nevent: alert\ndata: {}\n\n");
    }),
  );
  open();
  await vi.waitFor(
    () => expect(events.map((event) => event.id)).toEqual(expect.arrayContaining(["7", "8", "9"])),
    5_000,
  );
  expect(lastEventIds.slice(0, 2)).toEqual([null, "8"]);
  expect(states.slice(0, 3)).toEqual(["connecting", "open", "lost"]);
});

test("a stream is open while pings arrive, and lost after 8 s of silence", async () => {
  let ping: () => void = () => undefined;
  server.use(
    http.get(URL_, ({ request }) => {
      const body = new ReadableStream({
        start(controller) {
          ping = () => controller.enqueue(new TextEncoder().encode(": ping\n\n"));
          request.signal.addEventListener("abort", () => controller.error(new DOMException("", "AbortError")));
        },
      });
      return new HttpResponse(body, { headers: { "Content-Type": "text/event-stream" } });
    }),
  );
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    open();
    await expect.poll(() => states, { interval: 1 }).toContain("open");
    for (let i = 0; i < 5; i += 1) {
      ping();
      await new Promise((resolve) => realTimeout(resolve, 20));
      await vi.advanceTimersByTimeAsync(3_000);
    }
    expect(states).toEqual(["connecting", "open"]);
    await vi.advanceTimersByTimeAsync(5_000);
    await expect.poll(() => states, { interval: 1 }).toContain("lost");
  } finally {
    vi.useRealTimers();
  }
});

test("a refused connection is reported and retried", async () => {
  let calls = 0;
  server.use(
    http.get(URL_, () => {
      calls += 1;
      return calls < 3 ? new HttpResponse(null, { status: calls === 1 ? 401 : 503 }) : response("data: 1\n\n");
    }),
  );
  open();
  await vi.waitFor(() => expect(events).not.toHaveLength(0), 5_000);
  expect(states).toEqual(expect.arrayContaining(["refused", "lost", "open"]));
});
