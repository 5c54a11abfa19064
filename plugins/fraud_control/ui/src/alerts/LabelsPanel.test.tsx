// @vitest-environment jsdom
import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { API } from "../api/http";
import type { LabelSources } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ANALYST, SINCE } from "../testing/samples";
import { LabelsPanel } from "./LabelsPanel";

const LABELS: LabelSources = {
  sources: [
    { source: "mark", origin: "", fraud: 12, notFraud: 3, newest: SINCE },
    { source: "file", origin: "chargeback", fraud: 1_200, notFraud: 0, newest: SINCE },
    { source: "topic", origin: "", fraud: 0, notFraud: 0, newest: null },
  ],
  unreadable: 2,
};

const server = mockServer(
  http.get(`*${API}/labels`, () => HttpResponse.json(LABELS)),
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
);

test("each source has its counts", async () => {
  renderPage(<LabelsPanel />);
  const [, marks, files, topic] = within(await screen.findByRole("table")).getAllByRole("row");
  expect(marks).toHaveTextContent("Marks on alerts123");
  expect(files).toHaveTextContent("Uploaded files: chargeback1,2000");
  expect(topic).toHaveTextContent("Topic of labels00–");
  expect(screen.getByText("Skipped records of the topic: 2")).toBeVisible();
});

test("an upload shows the saved labels and the skipped lines", async () => {
  let sent: unknown;
  server.use(
    http.post(`*${API}/labels`, async ({ request }) => {
      sent = await request.json();
      return HttpResponse.json({ fraud: 2, notFraud: 1, skipped: { "unknown label": 4 } });
    }),
  );
  renderPage(<LabelsPanel />);
  const button = await screen.findByRole("button", { name: /Upload file of labels/u });
  const input = button.parentElement?.querySelector<HTMLInputElement>("input[type=file]");
  const content = "transactionId,label\n1,FRAUD\n";
  await userEvent.upload(input ?? document.createElement("input"), new File([content], "Chargebacks.CSV"));
  expect(await screen.findByRole("status")).toHaveTextContent(
    "Saved: 2 fraud, 1 not fraud. Skipped lines: 4 unknown label.",
  );
  expect(sent).toEqual({ name: "Chargebacks.CSV", format: "csv", content });
});
