import { EventStream, type StreamEvent, type StreamHandlers, type StreamState } from "./eventStream";

/** A short look at another window does not move the stream. */
const HIDDEN_MS = 5_000;

type Message =
  | { kind: "hello" }
  | { kind: "state"; state: StreamState; lastId: string | undefined }
  | { kind: "event"; event: StreamEvent; before: string | undefined };

/**
 * One event stream for all tabs of a browser, because a browser opens at most six connections to a server over HTTP/1.1.
 *
 * The visible tab that holds a lock reads the stream and passes its events to the other tabs, visible or not. It releases
 * the lock when it is hidden or closed. So there is no stream while all tabs are hidden; the next one continues after
 * the last event. A tab that missed an event gets a `gap`. Without locks, which browsers offer over HTTPS and for
 * localhost only, each visible tab reads a stream of its own.
 */
export class SharedStream {
  private readonly closing = new AbortController();
  private readonly locks = navigator.locks as LockManager | undefined;
  private readonly channel: BroadcastChannel | undefined;
  private readonly name: string;
  private state: StreamState = "connecting";
  private lastId: string | undefined;
  private stream: EventStream | undefined;
  /** Ends the wait for the lock, or releases it. */
  private turn: AbortController | undefined;
  private hiding: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly url: string,
    private readonly handlers: StreamHandlers,
  ) {
    this.name = `fraud-rules ${url}`;
    if (this.locks) {
      this.channel = new BroadcastChannel(this.name);
      this.channel.onmessage = ({ data }: MessageEvent<Message>) => this.receive(data);
      this.send({ kind: "hello" });
    }
    document.addEventListener("visibilitychange", () => this.followVisibility(), { signal: this.closing.signal });
    this.followVisibility();
  }

  close(): void {
    this.closing.abort();
    clearTimeout(this.hiding);
    this.leave();
    this.channel?.close();
  }

  private followVisibility(): void {
    clearTimeout(this.hiding);
    if (document.visibilityState === "visible") this.join();
    else this.hiding = setTimeout(() => this.leave(), HIDDEN_MS);
  }

  /** Reads the stream as soon as no other tab does. */
  private join(): void {
    if (this.turn) return;
    const turn = new AbortController();
    this.turn = turn;
    if (!this.locks) {
      this.open(turn.signal);
      return;
    }
    const read = () =>
      new Promise<void>((resolve) => {
        turn.signal.addEventListener("abort", () => resolve(), { once: true });
        if (turn.signal.aborted) resolve();
        else this.open(turn.signal);
      });
    this.locks.request(this.name, { signal: turn.signal }, read).catch(() => undefined); // the wait was aborted
  }

  private leave(): void {
    this.turn?.abort();
    this.turn = undefined;
  }

  private open(signal: AbortSignal): void {
    const stream = new EventStream(
      this.url,
      { event: (event) => this.pass(event), state: (state) => this.change(state) },
      this.lastId,
    );
    this.stream = stream;
    signal.addEventListener("abort", () => {
      stream.close();
      this.stream = undefined;
    });
  }

  private pass(event: StreamEvent): void {
    const before = this.lastId;
    this.lastId = event.id ?? before;
    this.send({ kind: "event", event, before });
    this.handlers.event(event);
  }

  private change(state: StreamState): void {
    // A tab that takes the stream over shows no interruption.
    if (state === "connecting" && this.state === "open") return;
    this.state = state;
    this.send({ kind: "state", state, lastId: this.lastId });
    this.handlers.state(state);
  }

  /** A message of another tab. Messages of the tab that read the stream before this one are outdated. */
  private receive(message: Message): void {
    if (this.stream) {
      if (message.kind === "hello") this.send({ kind: "state", state: this.state, lastId: this.lastId });
      return;
    }
    if (message.kind === "state") {
      this.lastId ??= message.lastId;
      this.state = message.state;
      this.handlers.state(message.state);
    } else if (message.kind === "event") {
      const { event, before } = message;
      const isComplete = this.lastId === undefined || this.lastId === before;
      this.lastId = event.id ?? this.lastId;
      this.handlers.event(isComplete ? event : { ...event, name: "gap", data: "null" });
    }
  }

  private send(message: Message): void {
    this.channel?.postMessage(message);
  }
}
