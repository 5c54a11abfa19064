// @vitest-environment jsdom
import { act, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { renderPage } from "../testing/renderPage";
import { Loading } from "./Loading";

test("assistive technology announces the spinner", () => {
  renderPage(<Loading />);
  expect(screen.getByRole("status", { name: "Loading" })).toBeVisible();
});

test("a long wait says what the page waits for", () => {
  vi.useFakeTimers();
  renderPage(<Loading />);
  pass(4_000);
  expect(screen.queryByText(/Waiting/u)).toBeNull();
  pass(3_000);
  expect(screen.getByText("Waiting for the server for 7 s")).toBeVisible();
  vi.useRealTimers();
});

function pass(ms: number) {
  act(() => {
    vi.advanceTimersByTime(ms);
  });
}
