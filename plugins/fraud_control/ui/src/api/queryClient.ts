import { QueryClient } from "@tanstack/react-query";
import { Problem } from "./http";

const TOO_MANY_REQUESTS = 429;

/** Whether to send a failed read again. A 4xx answer is final, except 429. */
function shouldRetry(failures: number, error: Error): boolean {
  if (failures >= 2) return false;
  if (!(error instanceof Problem) || error.status === TOO_MANY_REQUESTS) return true;
  return error.status < 400 || error.status >= 500;
}

/** The query cache of the pages. */
export function newQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: { queries: { retry: shouldRetry, staleTime: 5_000 }, mutations: { retry: false } },
  });
}
