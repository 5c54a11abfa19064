import { useRef } from "react";
import { stringifyExactly } from "./exactJson";
import { type ApiResponse, call, type CallOptions, Problem } from "./http";

/**
 * Returns a function that calls the API. Each POST has an Idempotency-Key. If the answer got lost, the same request sent
 * again has the same key, so that the server does not execute it twice.
 */
export function useSubmission() {
  const open = useRef<{ content: string; key: string } | null>(null);
  return async <T>(path: string, options: CallOptions): Promise<ApiResponse<T>> => {
    if (options.method !== "POST") return call<T>(path, options);
    const content = stringifyExactly([path, options.body ?? null]);
    if (open.current?.content !== content) open.current = { content, key: newKey() };
    try {
      const answer = await call<T>(path, { ...options, submission: open.current.key });
      open.current = null;
      return answer;
    } catch (error) {
      if (error instanceof Problem && error.status >= 400 && error.status < 500) open.current = null;
      throw error;
    }
  };
}

/** 128 random bits. Unlike crypto.randomUUID, this also works in pages without TLS. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((each) => each.toString(36)).join("-");
}
