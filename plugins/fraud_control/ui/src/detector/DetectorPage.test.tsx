// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { Liveness, Progress, ProgressPoint } from "../api/types";
import { formatTime } from "../format";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { liveness, SCHEMA, SINCE } from "../testing/samples";
import DetectorPage from "./DetectorPage";

const server = mockServer(
  http.get(`*${API}/drift`, () =>
    HttpResponse.json({
      inStep: false,
      settled: true,
      outboxPending: 0,
      oldestPendingMs: null,
      differences: [],
      mapDifferences: [],
      listDifferences: [
        { listName: "mules", store: { version: 7, type: "long", size: 2, valuesSha256: "ab" }, log: null },
      ],
      behind: 3,
      behindSince: SINCE,
    }),
  ),
);

function point(timeMs: number): ProgressPoint {
  return { time: timeMs, rowsPerS: 50, lag: 126, p50: 200, p99: 400, batchMs: 150 };
}

const ignored = { duplicates: 12, conflictingDuplicates: 3, nullKeys: 40, mainReason: null };

function page(now: Liveness, members: Partial<Progress> = {}) {
  const progress: Progress = {
    at: now.at,
    status: {
      alive: false,
      lastBatchAgeMs: 90_000,
      batchId: 7,
      rowsPerS: 50.2,
      lag: 126,
      latencyP50Ms: 3_600,
      latencyP99Ms: 4_000,
      batchMs: 150,
      rulesInForce: 8,
      retainedEvents: 187_440,
      retainedBytes: 62_500_000,
      watermark: SINCE,
      recent: { sinceMs: SINCE - 300_000, rows: 2_000, late: 250, quarantined: 0, ...ignored },
      sinceStart: { sinceMs: SINCE - 900_000, rows: 9_000, late: 250, quarantined: 0, ...ignored },
      viewsSinceStart: { catchUps: 3, rebuilds: 8 },
      mode: { large: true, since: SINCE },
      cpuNs: 12_340,
    },
    gapMs: 25_000,
    points: [point(SINCE - 10_000), point(SINCE)],
    late: [],
    quarantine: [],
    readers: [],
    faults: [],
    unreadable: {},
    ...members,
  };
  server.use(
    http.get(`*${API}/progress`, () => HttpResponse.json(progress)),
    http.get(`*${API}/liveness`, () => HttpResponse.json(now)),
    http.get(`*${API}/alarms`, () => HttpResponse.json({ items: [], alarmReceivers: [] })),
    http.get(`*${API}/schema`, () => HttpResponse.json(SCHEMA)),
  );
  renderPage(<DetectorPage />);
}

test("during an outage the metrics are dimmed, and the lag of the last batch is not shown as current", async () => {
  page(liveness());
  const figures = await screen.findByRole("region", { name: "Metrics" });
  expect(figures).toHaveTextContent("Waiting payments: 52,310");
  expect(figures).toHaveTextContent(`Metrics of the last batch, as of ${formatTime(SINCE, SINCE)}`);
  expect(figures.querySelector("dl")).toHaveClass("old");
  expect(figures).toHaveTextContent("Duplicates (since start)12 (3 with other content)");
  expect(figures).toHaveTextContent("Null grouping fields (since start)40");
  expect(figures).not.toHaveTextContent("126");
  expect(screen.getByText("STARTING")).toHaveAttribute("data-tone", "bad");
});

test("without an outage the metrics are current", async () => {
  page(liveness({ severity: "NONE", waiting: 12, verdict: { ...liveness().verdict, name: "HEALTHY", tone: "good" } }));
  const figures = await screen.findByRole("region", { name: "Metrics" });
  expect(figures).toHaveTextContent("Waiting payments: 12");
  expect(figures).toHaveTextContent("View rebuilds / catch-ups (since start)8 / 3");
  expect(figures).toHaveTextContent("CPU time of rules per payment (estimate)12.34 µs");
  expect(figures).toHaveTextContent("Late (last 5 min)12.5 % of 2,000");
  expect(figures).toHaveTextContent("Batcheslarge (4,000 payments or more), with many tasks, since");
  expect(figures.querySelector("dl")).not.toHaveClass("old");
  expect(figures).not.toHaveTextContent("as of");
});

test("a stuck topic consumer and the unread part of the rule log are shown", async () => {
  const reader = { name: "mirror", topic: "rules", position: 4, end: 9, behind: 5, since: SINCE, fault: null };
  page(liveness({ severity: "NONE" }), {
    readers: [
      { ...reader, stuck: true },
      { ...reader, name: "feed", stuck: false },
    ],
    faults: [{ thread: "flood guard", fault: "the database is away" }],
    unreadable: { rules: 2, alerts: 0 },
  });
  const consumers = await screen.findByRole("region", { name: "Topic consumers" });
  expect(consumers).toHaveTextContent("mirror (rules)Stuck4 of 95");
  expect(consumers).not.toHaveTextContent("feed (rules)");
  expect(consumers).toHaveTextContent("flood guard: the database is away");
  expect(consumers).toHaveTextContent("Skipped unreadable records in rules: 2");
  expect(consumers).not.toHaveTextContent("alerts");
  expect(await screen.findByText(/Rule log records not yet applied: 3\. Oldest: /u)).toBeVisible();
});
