import { setupServer, type SetupServerApi } from "msw/node";
import { afterAll, afterEach, beforeAll } from "vitest";

/** A server for the tests of this file: what it is asked and has no handler for fails the test. `use` lasts for one test. */
export function serve(...handlers: Parameters<typeof setupServer>): SetupServerApi {
  const server = setupServer(...handlers);
  beforeAll(() => server.listen({ onUnhandledRequest: "error" }));
  afterEach(() => server.resetHandlers());
  afterAll(() => server.close());
  return server;
}
