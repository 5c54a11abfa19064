import { parseExactly, stringifyExactly } from "./exactJson";
import type { Reason } from "./types";

export const API = "/fraud/control/api";

/** An answer that is an error: its status, what is wrong in a sentence, and the reasons by field. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly reasons: readonly Reason[],
  ) {
    super(detail || title);
  }
}

export interface Answer<T> {
  status: number;
  body: T;
}

export interface Options {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  body?: unknown;
  revision?: number;
  signal?: AbortSignal;
}

/** One call of the API. Throws a Problem for an error, and one of status 0 where the server cannot be reached. */
export async function call<T>(path: string, options: Options = {}): Promise<Answer<T>> {
  const response = await send(path, options);
  const text = await response.text();
  if (!response.ok) throw problemOf(response, text);
  return { status: response.status, body: (text === "" ? null : parseExactly(text)) as T };
}

/** The body of one call of the API. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await call<T>(path, signal ? { signal } : {})).body;
}

/** The text of a file that the API makes. */
export async function getText(path: string): Promise<string> {
  const response = await send(path, {});
  const text = await response.text();
  if (!response.ok) throw problemOf(response, text);
  return text;
}

/** A query string of what is there. */
export function query(members: Record<string, string | number | boolean | null | undefined>): string {
  const given = Object.entries(members).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? "" : `?${text}`;
}

async function send(path: string, { method = "GET", body, revision, signal }: Options): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (revision !== undefined) headers["If-Match"] = `"${revision}"`;
  try {
    return await fetch(API + path, {
      method,
      headers,
      credentials: "same-origin",
      ...(body === undefined ? {} : { body: stringifyExactly(body) }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "No connection", "The server cannot be reached. The page may be out of date.", []);
  }
}

function problemOf(response: Response, text: string): Problem {
  try {
    const told = parseExactly(text) as Partial<Problem> | null;
    if (told && typeof told.title === "string") {
      return new Problem(response.status, told.title, told.detail ?? "", told.reasons ?? []);
    }
  } catch {
    // Not ours: an error page of something in between.
  }
  return new Problem(response.status, `HTTP ${response.status}`, `The server returned HTTP ${response.status}.`, []);
}
