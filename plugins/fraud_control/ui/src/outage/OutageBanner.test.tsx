// @vitest-environment jsdom
import { act, screen } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test, vi } from "vitest";
import { API } from "../api/http";
import { keys } from "../api/keys";
import { formatTime } from "../format";
import { mockServer } from "../testing/mockServer";
import { newClient, renderPage } from "../testing/renderPage";
import { liveness, SINCE } from "../testing/samples";
import { OutageBanner } from "./OutageBanner";

const server = mockServer();

function answers(members: Parameters<typeof liveness>[0]) {
  server.use(http.get(`*${API}/liveness`, () => HttpResponse.json(liveness(members))));
}

test("an outage shows its start and the number of waiting payments", async () => {
  answers({ severity: "RED", waiting: 52_310, starts: 2 });
  renderPage(<OutageBanner />);
  const banner = await screen.findByRole("region", { name: "Outage" });
  expect(banner).toHaveTextContent(
    `No payment evaluated since ${formatTime(SINCE, SINCE)}. 52,310 payments waiting. 2 restarts requested. Starting for 6 s.`,
  );
  expect(banner).toHaveAttribute("data-severity", "RED");
  expect(screen.getByRole("status")).not.toHaveTextContent("52,310");
  expect(screen.getByRole("link", { name: "Runbook" })).toHaveAttribute("href", "/fraud-runbooks/starting");
});

test.each([
  [{ waiting: 0 }, /No payments waiting\.$/u],
  [{ waiting: 1 }, /1 payment waiting\.$/u],
  [{ waiting: null }, /Number of waiting payments unknown\.$/u],
  [{ since: null, waiting: 3 }, /^No payment evaluated yet\. 3 payments waiting\.$/u],
] as const)("its sentence for %o", async (members, sentence) => {
  answers({ severity: "AMBER", starts: 0, verdict: { ...liveness().verdict, reasons: [] }, ...members });
  renderPage(<OutageBanner />);
  const status = await screen.findByRole("status");
  expect(status.parentElement?.textContent.trim()).toMatch(sentence);
});

test.each([
  [
    { producerId: 4711, transactionalId: "gateway-3" },
    `A transaction of producer 4711 (gateway-3), open since ${formatTime(SINCE, SINCE)}, hides transactions-2 from offset 5 on. 52,310 payments waiting.`,
  ],
  [{ producerId: 4711 }, "A transaction of producer 4711, open since"],
  [{}, "A transaction of an unknown producer, open since"],
])("an open transaction is named with its producer %o", async (producer, sentence) => {
  const hidden = {
    topic: "transactions",
    partition: 2,
    offset: 5,
    sinceMs: SINCE,
    producerId: null,
    transactionalId: null,
  };
  answers({ severity: "AMBER", openTransaction: { ...hidden, ...producer } });
  renderPage(<OutageBanner />);
  expect(await screen.findByRole("region", { name: "Outage" })).toHaveTextContent(sentence);
});

test("a missing topic is named", async () => {
  answers({ severity: "AMBER", waiting: 0, missing: ["rules", "detector-state"] });
  renderPage(<OutageBanner />);
  const banner = await screen.findByRole("region", { name: "Outage" });
  expect(banner).toHaveTextContent(
    "The next batch waits for missing topics: rules, detector-state. No payments waiting.",
  );
});

test("an outage never shows the verdict HEALTHY", async () => {
  answers({ severity: "AMBER", verdict: { ...liveness().verdict, name: "HEALTHY", tone: "warn" } });
  renderPage(<OutageBanner />);
  expect(await screen.findByText("DELAYED")).toHaveAttribute("data-tone", "warn");
  expect(screen.queryByText("HEALTHY")).toBeNull();
});

test.each([
  ["BLIND", "RED", /^Payments do not reach the rules\. 84 of 360 are in quarantine\./u],
  ["MOSTLY_LATE", "RED", /^Payments do not reach the rules\. 84 of 360 are in quarantine\./u],
  ["LAGGING", "AMBER", /^The detector has a fault\. 84 of 360 are in quarantine\./u],
])("the verdict %s of a working detector has a banner", async (name, severity, sentence) => {
  const verdict = { ...liveness().verdict, name, reasons: ["84 of 360 are in quarantine"], tone: "bad" as const };
  answers({ severity: "NONE", verdict });
  renderPage(<OutageBanner />);
  const banner = await screen.findByRole("region", { name: "Detector fault" });
  expect(banner).toHaveAttribute("data-severity", severity);
  expect(banner.textContent.trim()).toMatch(sentence);
  expect(banner).toHaveTextContent(name.replaceAll("_", " "));
});

test("a server that does not answer is named within 10 s", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] });
  try {
    let hangs = false;
    server.use(
      http.get(`*${API}/liveness`, () => {
        if (hangs) return new Promise<HttpResponse<null>>(() => undefined);
        return HttpResponse.json(liveness({ severity: "NONE", verdict: { ...liveness().verdict, tone: "good" } }));
      }),
    );
    const client = newClient();
    renderPage(<OutageBanner />, { client });
    await expect.poll(() => client.getQueryData(keys.liveness), { interval: 1 }).toBeTruthy();
    const answeredAt = Date.now();
    hangs = true;
    await act(() => vi.advanceTimersByTimeAsync(8_000));
    expect(screen.queryByRole("region")).toBeNull();
    await act(() => vi.advanceTimersByTimeAsync(2_000));
    const banner = screen.getByRole("region", { name: "No answer" });
    expect(banner).toHaveTextContent(/The server does not answer\. Waiting for (9|10) s\./u);
    expect(banner).toHaveTextContent(`This page shows the state of ${formatTime(answeredAt)}.`);
  } finally {
    vi.useRealTimers();
  }
});

test("without an outage there is no banner", async () => {
  answers({ severity: "NONE", waiting: 126, verdict: { ...liveness().verdict, name: "HEALTHY", tone: "good" } });
  const client = newClient();
  renderPage(<OutageBanner />, { client });
  await expect.poll(() => client.getQueryData(keys.liveness)).toBeTruthy();
  expect(screen.queryByRole("region", { name: "Outage" })).toBeNull();
});
