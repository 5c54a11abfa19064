// @vitest-environment jsdom
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { useState } from "react";
import { beforeEach, expect, test } from "vitest";
import { API } from "../../api/http";
import type { Reason, SampleRequest } from "../../api/types";
import { mockServer } from "../../testing/mockServer";
import { renderPage } from "../../testing/renderPage";
import { rule, SCHEMA } from "../../testing/samples";
import { ExpressionField } from "./ExpressionField";
import { RuleForm } from "./RuleForm";
import { SamplePaymentInput } from "./SamplePaymentInput";
import { useSamplePayment } from "./useSample";

const NEWEST = '{"transactionId": 99}';
const NO_TYPE: Reason = { field: "payment", message: "missing_field:paymentType" };

let asked: SampleRequest[] = [];

mockServer(
  http.post(`*${API}/rules/sample`, async ({ request }) => {
    const body = (await request.json()) as SampleRequest;
    asked.push(body);
    const reasons = body.text.includes("amout")
      ? [{ field: body.member, message: "did you mean amount?" }]
      : body.payment === "{}"
        ? [NO_TYPE]
        : [];
    const value = body.text === "" || reasons.length > 0 ? null : body.text === "lost" ? null : `<${body.text}>`;
    return HttpResponse.json({ value, reasons, payment: body.payment ?? NEWEST });
  }),
);

beforeEach(() => {
  asked = [];
});

/** Two fields with one sample payment. `error` is that of the filter. */
function Fields({ filter = "", limit = "", error = null }: { filter?: string; limit?: string; error?: string | null }) {
  const [texts, setTexts] = useState({ filter, limit });
  const payment = useSamplePayment(true);
  const shared = { warning: null, readOnly: false, sample: payment, placeholder: "", suggest: () => [] };
  return (
    <>
      <ExpressionField
        {...shared}
        member="filter"
        label="Filter"
        value={texts.filter}
        error={error}
        change={(value) => setTexts({ ...texts, filter: value })}
      />
      <ExpressionField
        {...shared}
        member="limit"
        label="Limit"
        value={texts.limit}
        error={null}
        change={(value) => setTexts({ ...texts, limit: value })}
      />
      <SamplePaymentInput payment={payment} />
    </>
  );
}

async function write(label: string, text: string) {
  await userEvent.click(await screen.findByLabelText(label));
  await userEvent.keyboard("{Control>}a{/Control}");
  await userEvent.paste(text);
}

const line = (text: string) => screen.findByText(text);

test("each expression shows its value for the newest payment while the user types", async () => {
  renderPage(<Fields filter="cardPresent" limit="paymentAmount * 2" />);
  expect(await line("Sample payment: <cardPresent>")).toHaveAttribute("aria-live", "polite");
  expect(await line("Sample payment: <paymentAmount * 2>")).toBeVisible();
  await write("Filter", "lost");
  expect(await line("Sample payment: null")).toBeVisible();
  expect(asked.filter(({ text }) => text !== "").map(({ payment }) => payment)).toEqual([NEWEST, NEWEST, NEWEST]);
  expect(asked.map(({ member }) => member).filter((member) => member === "limit")).toHaveLength(1);
});

test("the user edits the sample payment, and returns to the newest one", async () => {
  renderPage(<Fields filter="cardPresent" />);
  await line("Sample payment: <cardPresent>");
  await userEvent.click(screen.getByText("Sample payment"));
  const payment = screen.getByRole("textbox", { name: "Sample payment" });
  expect(payment).toHaveValue(NEWEST);
  await userEvent.clear(payment);
  await userEvent.click(payment);
  await userEvent.paste("{}");
  expect(await line("No value: payment missing_field:paymentType")).toBeVisible();
  await userEvent.click(screen.getByRole("button", { name: "Use the newest payment" }));
  expect(payment).toHaveValue(NEWEST);
  expect(await line("Sample payment: <cardPresent>")).toBeVisible();
});

test("the previous payment is sent once it is chosen", async () => {
  renderPage(<Fields limit="previous(paymentAmount)" />);
  await line("Sample payment: <previous(paymentAmount)>");
  await userEvent.click(screen.getByText("Sample payment"));
  await userEvent.click(screen.getByRole("textbox", { name: "Previous payment" }));
  await userEvent.paste('{"transactionId": 98}');
  const last = () => asked.filter(({ text }) => text !== "").map(({ previous }) => previous);
  await waitFor(() => expect(last()).toEqual([null, '{"transactionId": 98}']));
});

test("a faulty expression shows its reason once", async () => {
  renderPage(<Fields filter="amout > 3" />);
  expect(await line("No value: filter did you mean amount?")).toBeVisible();
});

test("the error of the validation replaces the reason", async () => {
  renderPage(<Fields filter="amout > 3" error="did you mean amount?" />);
  await waitFor(() => expect(asked.map(({ text }) => text)).toContain("amout > 3"));
  expect(await line("did you mean amount?")).toBeVisible();
  expect(screen.queryByText(/^No value/u)).toBeNull();
});

test("the form of a rule shows the sample payment to a user who can edit", async () => {
  const form = (readOnly: boolean) => (
    <RuleForm
      document={{ ...rule().document, filter: "cardPresent" }}
      schema={SCHEMA}
      lookups={{ lists: [], maps: [] }}
      reasons={[]}
      readOnly={readOnly}
      change={() => undefined}
    />
  );
  renderPage(form(true));
  expect(asked).toEqual([]);
  renderPage(form(false));
  expect(await line("Sample payment")).toBeVisible();
  expect(await line("Sample payment: <cardPresent>")).toBeVisible();
});
