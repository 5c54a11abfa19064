// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { show } from "../testing/show";
import { Crash } from "./Crash";

function Broken(): never {
  throw new Error("no such thing");
}

test("a page that crashes says so", () => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  show(
    <Crash>
      <Broken />
    </Crash>,
  );
  expect(screen.getByRole("alert")).toHaveTextContent("This page crashed");
  expect(screen.getByRole("alert")).toHaveTextContent("no such thing");
  expect(screen.getByRole("button", { name: "Try again" })).toBeVisible();
});

test("a page that does not crash is itself", () => {
  show(<Crash>all is well</Crash>);
  expect(screen.getByText("all is well")).toBeVisible();
  expect(screen.queryByRole("alert")).toBeNull();
});
