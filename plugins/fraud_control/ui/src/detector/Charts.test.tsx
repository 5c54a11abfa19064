// @vitest-environment jsdom
import { screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Progress, ProgressPoint } from "../api/types";
import { renderPage } from "../testing/renderPage";
import { SINCE } from "../testing/samples";
import { Charts } from "./Charts";

const WIDTH = 600;

beforeEach(() => {
  // jsdom has no layout, and a chart without a size draws nothing.
  vi.spyOn(HTMLElement.prototype, "getBoundingClientRect").mockImplementation(function (this: HTMLElement) {
    return this.className.includes("recharts-responsive-container") ? new DOMRect(0, 0, WIDTH, 200) : new DOMRect();
  });
});

afterEach(() => {
  vi.restoreAllMocks();
});

function point(secondsBefore: number, p99: number): ProgressPoint {
  return { time: SINCE - secondsBefore * 1_000, rowsPerS: 50, lag: 126, p50: 200, p99, batchMs: 150 };
}

function render(points: ProgressPoint[], at: number) {
  const progress: Progress = {
    status: null,
    at,
    gapMs: 25_000,
    points,
    late: [],
    quarantine: [],
    readers: [],
    faults: [],
    unreadable: {},
  };
  renderPage(<Charts progress={progress} minutes={15} />);
}

/** The path of the p99 line: a list of points for each unbroken line. */
async function drawn(points: ProgressPoint[], at: number): Promise<number[][][]> {
  render(points, at);
  const chart = screen.getByRole("region", { name: "Latency" });
  await expect.poll(() => chart.querySelectorAll("path.recharts-line-curve")).toHaveLength(2);
  const path = chart.querySelectorAll("path.recharts-line-curve")[1]?.getAttribute("d") ?? "";
  expect(path).not.toContain("C");
  return path
    .split("M")
    .slice(1)
    .map((line) => line.split("L").map((pair) => pair.split(",").map(Number)));
}

test("a chart ends now, so that an outage is a gap at its right edge", async () => {
  const [line] = await drawn([point(20, 400), point(10, 500), point(0, 400)], SINCE + 450_000);
  const right = line?.at(-1)?.[0] ?? WIDTH;
  expect(right).toBeGreaterThan(WIDTH * 0.4);
  expect(right).toBeLessThan(WIDTH * 0.6);
});

test("a line breaks where nothing was evaluated, and is straight elsewhere", async () => {
  const lines = await drawn([point(400, 400), point(390, 900), point(380, 400), point(10, 500), point(0, 400)], SINCE);
  expect(lines.map((line) => line.length)).toEqual([3, 2]);
});

test.each([
  ["Latency", ["p50", "p99"]],
  ["Throughput and waiting payments", ["transactions per second", "waiting payments"]],
])("the legend of %s has the order of the lines", async (name, lines) => {
  render([point(10, 500), point(0, 400)], SINCE);
  const chart = within(screen.getByRole("region", { name }));
  const isLine = (text: string) => lines.includes(text);
  await expect.poll(() => chart.queryAllByText(isLine).map((each) => each.textContent)).toEqual(lines);
});
