import { BASE_PATH } from "../basePath";
import { parseExactly, stringifyExactly } from "./exactJson";
import type { Reason } from "./types";

export const API = `${BASE_PATH}/api`;

/** An error response (RFC 9457): status, title, detail, and reasons by field. */
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

export interface ApiResponse<T> {
  status: number;
  body: T;
}

export interface CallOptions {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  body?: unknown;
  revision?: number;
  /** The Idempotency-Key: the server executes a POST with the same key once. */
  submission?: string;
  signal?: AbortSignal;
}

/** Calls the API. Throws a `Problem` for an error response, and one with status 0 if the server cannot be reached. */
export async function call<T>(path: string, options: CallOptions = {}): Promise<ApiResponse<T>> {
  const response = await send(path, options);
  const text = await response.text();
  if (!response.ok) throw problemOf(response, text);
  return { status: response.status, body: (text === "" ? null : parseExactly(text)) as T };
}

/** The longest read. The server itself gives up earlier. */
const READ_MS = 90_000;

/** Calls the API with GET and returns the body. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const limit = AbortSignal.timeout(READ_MS);
  return (await call<T>(path, { signal: signal ? AbortSignal.any([signal, limit]) : limit })).body;
}

/** Returns the text of a file that the API generates. */
export async function getText(path: string): Promise<string> {
  const response = await send(path, {});
  const text = await response.text();
  if (!response.ok) throw problemOf(response, text);
  return text;
}

/** Builds a query string from the members that have a value. */
export function queryString(members: Record<string, string | number | boolean | null | undefined>): string {
  const present = Object.entries(members).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(present.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? "" : `?${text}`;
}

async function send(
  path: string,
  { method = "GET", body, revision, submission, signal }: CallOptions,
): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (revision !== undefined) headers["If-Match"] = `"${revision}"`;
  if (submission !== undefined) headers["Idempotency-Key"] = submission;
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
    const body = parseExactly(text) as Partial<Problem> | null;
    if (body && typeof body.title === "string") {
      return new Problem(response.status, body.title, body.detail ?? "", body.reasons ?? []);
    }
  } catch {
    // The body is not ours: for example the error page of a proxy.
  }
  return new Problem(response.status, `HTTP ${response.status}`, `The server returned HTTP ${response.status}.`, []);
}
