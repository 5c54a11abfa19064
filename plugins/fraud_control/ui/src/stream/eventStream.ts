import { createParser } from "eventsource-parser";

export interface StreamEvent {
  id: string | undefined;
  name: string;
  data: string;
}

export type StreamState = "connecting" | "open" | "lost" | "refused";

export interface StreamHandlers {
  event: (event: StreamEvent) => void;
  state: (state: StreamState) => void;
}

const MIN_WAIT_MS = 250;
const MAX_WAIT_MS = 10_000;
/** The server opens a stream when it has read the latest alerts, which takes a while after its start. */
const CONNECT_MS = 40_000;
/** The server sends at least a ping every 3 s. A stream that is silent for this long is dead. */
const SILENCE_MS = 8_000;

/**
 * Reads a stream of server-sent events until it is closed. After a loss it reconnects with `Last-Event-ID`, so that no
 * event is missed. The browser's own EventSource stops for good at the first error response.
 */
export class EventStream {
  private readonly closing = new AbortController();
  private waitMs = MIN_WAIT_MS;

  /** The stream continues after the event `lastId`, and without it begins now. */
  constructor(
    private readonly url: string,
    private readonly handlers: StreamHandlers,
    private lastId?: string,
  ) {
    void this.run();
  }

  close(): void {
    this.closing.abort();
  }

  private isClosed(): boolean {
    return this.closing.signal.aborted;
  }

  private async run(): Promise<void> {
    while (!this.isClosed()) {
      this.handlers.state("connecting");
      const isRefused = await this.connect();
      if (this.isClosed()) return;
      this.handlers.state(isRefused ? "refused" : "lost");
      await this.pause();
    }
  }

  /** Reads one connection to its end. Returns whether the server refused it. */
  private async connect(): Promise<boolean> {
    const connection = new AbortController();
    const abort = () => connection.abort();
    this.closing.signal.addEventListener("abort", abort);
    let silenceTimer = setTimeout(abort, CONNECT_MS);
    const restart = () => {
      clearTimeout(silenceTimer);
      silenceTimer = setTimeout(abort, SILENCE_MS);
    };
    try {
      const response = await fetch(this.url, {
        headers: { Accept: "text/event-stream", ...(this.lastId ? { "Last-Event-ID": this.lastId } : {}) },
        credentials: "same-origin",
        cache: "no-store",
        signal: connection.signal,
      });
      if (!response.ok || !response.body) return response.status === 401 || response.status === 403;
      this.waitMs = MIN_WAIT_MS;
      this.handlers.state("open");
      restart();
      const parser = createParser({
        onEvent: ({ id, event, data }) => {
          if (id !== undefined) this.lastId = id;
          this.handlers.event({ id, name: event ?? "message", data });
        },
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return false;
        restart();
        parser.feed(value);
      }
    } catch {
      return false;
    } finally {
      clearTimeout(silenceTimer);
      this.closing.signal.removeEventListener("abort", abort);
    }
  }

  private pause(): Promise<void> {
    const waitMs = this.waitMs * (0.75 + Math.random() / 2);
    this.waitMs = Math.min(this.waitMs * 2, MAX_WAIT_MS);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      this.closing.signal.addEventListener(
        "abort",
        () => {
          clearTimeout(timer);
          resolve();
        },
        { once: true },
      );
    });
  }
}
