// @vitest-environment jsdom
import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "../testing/renderPage";
import { LabelPrecision, Precision } from "./Precision";

test.each([
  [1, 0, "1/1"],
  [7, 2, "7/9"],
])("%i frauds and %i other labels are a grey fraction", (fraud, notFraud, text) => {
  renderPage(<Precision fraud={fraud} notFraud={notFraud} />);
  expect(screen.getByText(text)).toHaveClass("dimmed");
  expect(screen.queryByText(/%/u)).toBeNull();
});

test("ten labels are a percentage with its interval", () => {
  renderPage(<Precision fraud={9} notFraud={1} />);
  const share = screen.getByTitle(/^9 of 10 labelled/u);
  expect(share).toHaveTextContent("90 % (60–98 %)");
  expect(share).not.toHaveClass("dimmed");
});

test("no labels are a dash, and the unlabelled share is shown", () => {
  renderPage(<Precision fraud={0} notFraud={0} of={8} />);
  expect(screen.getByText("–")).toBeVisible();
  expect(screen.getByText("100 % unlabelled")).toBeVisible();
});

test("labels that name frauds only give a lower bound among all alerts", () => {
  renderPage(<LabelPrecision labels={{ notFraud: 0, caught: 31, falseAlerts: 0 }} fires={954} />);
  expect(screen.getByTitle(/^No label says/u)).toHaveTextContent("at least 3 % (31 of 954 alerts)");
  expect(screen.queryByText(/100/u)).toBeNull();
});

test("a single label of no fraud makes it the share of labelled alerts", () => {
  renderPage(<LabelPrecision labels={{ notFraud: 1, caught: 9, falseAlerts: 1 }} fires={954} />);
  expect(screen.getByTitle(/^9 of 10 labelled/u)).toHaveTextContent("90 %");
});
