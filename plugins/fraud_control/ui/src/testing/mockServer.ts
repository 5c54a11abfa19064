import { setupServer, type SetupServerApi } from "msw/node";
import { afterAll, afterEach, beforeAll } from "vitest";

/** A server for one test file. A request without a handler fails the test. `use` adds a handler for one test. */
export function mockServer(...handlers: Parameters<typeof setupServer>): SetupServerApi {
  const server = setupServer(...handlers);
  beforeAll(() => server.listen({ onUnhandledRequest: "error" }));
  afterEach(() => server.resetHandlers());
  afterAll(() => server.close());
  return server;
}
