// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "../testing/renderPage";
import { Loading } from "./Loading";

test("assistive technology announces the spinner", () => {
  renderPage(<Loading />);
  expect(screen.getByRole("status", { name: "Loading" })).toBeVisible();
});
