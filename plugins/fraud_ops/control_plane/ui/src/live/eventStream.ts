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

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 10_000;
/** The server says something at least every 15 s; a connection that is silent for longer than this is dead. */
const SILENCE_MS = 40_000;

/**
 * Follows a stream of server-sent events until it is closed. After a loss it connects again with `Last-Event-ID`, so
 * that nothing is missed; the browser's own EventSource gives up for good on the first answer that is an error.
 */
export class EventStream {
  private readonly end = new AbortController();
  private lastId: string | undefined;
  private wait = FIRST_WAIT_MS;

  constructor(
    private readonly url: string,
    private readonly handlers: StreamHandlers,
  ) {
    void this.follow();
  }

  close(): void {
    this.end.abort();
  }

  private isClosed(): boolean {
    return this.end.signal.aborted;
  }

  private async follow(): Promise<void> {
    while (!this.isClosed()) {
      this.handlers.state("connecting");
      const refused = await this.connect();
      if (this.isClosed()) return;
      this.handlers.state(refused ? "refused" : "lost");
      await this.pause();
    }
  }

  /** Read one connection to its end; whether the server refused it. */
  private async connect(): Promise<boolean> {
    const connection = new AbortController();
    const giveUp = () => connection.abort();
    this.end.signal.addEventListener("abort", giveUp);
    let silence = setTimeout(giveUp, SILENCE_MS);
    try {
      const response = await fetch(this.url, {
        headers: { Accept: "text/event-stream", ...(this.lastId ? { "Last-Event-ID": this.lastId } : {}) },
        credentials: "same-origin",
        cache: "no-store",
        signal: connection.signal,
      });
      if (!response.ok || !response.body) return response.status === 401 || response.status === 403;
      this.wait = FIRST_WAIT_MS;
      this.handlers.state("open");
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
        clearTimeout(silence);
        silence = setTimeout(giveUp, SILENCE_MS);
        parser.feed(value);
      }
    } catch {
      return false;
    } finally {
      clearTimeout(silence);
      this.end.signal.removeEventListener("abort", giveUp);
    }
  }

  private pause(): Promise<void> {
    const wait = this.wait * (0.75 + Math.random() / 2);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, wait);
      this.end.signal.addEventListener(
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
