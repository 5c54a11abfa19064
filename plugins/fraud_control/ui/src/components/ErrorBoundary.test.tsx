// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { renderPage } from "../testing/renderPage";
import { ErrorBoundary } from "./ErrorBoundary";

function Broken(): never {
  throw new Error("no such thing");
}

test("a page that crashes shows the error", () => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  renderPage(
    <ErrorBoundary>
      <Broken />
    </ErrorBoundary>,
  );
  expect(screen.getByRole("alert")).toHaveTextContent("This page crashed");
  expect(screen.getByRole("alert")).toHaveTextContent("no such thing");
  expect(screen.getByRole("button", { name: "Try again" })).toBeVisible();
});

test("a page that works renders its content", () => {
  renderPage(<ErrorBoundary>all is well</ErrorBoundary>);
  expect(screen.getByText("all is well")).toBeVisible();
  expect(screen.queryByRole("alert")).toBeNull();
});
