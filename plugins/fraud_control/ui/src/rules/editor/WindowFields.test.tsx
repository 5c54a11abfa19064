// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, test } from "vitest";
import type { RuleDocument } from "../../api/types";
import { WindowFields } from "./WindowFields";

function Form({ start }: { start: RuleDocument }) {
  const [rule, setRule] = useState(start);
  return (
    <>
      <WindowFields
        rule={rule}
        errorOf={(...members) => (members.includes("zone") && rule["zone"] === "Mars" ? "no zone" : null)}
        readOnly={false}
        change={(members) => setRule({ ...rule, ...members })}
      />
      <output>{JSON.stringify(rule)}</output>
    </>
  );
}

const current = () => JSON.parse(screen.getByRole("status").textContent) as RuleDocument;

test("a window changes between lengths and periods of the calendar", async () => {
  render(
    <MantineProvider env="test">
      <Form start={{ windowMinutes: 20 }} />
    </MantineProvider>,
  );
  const unit = screen.getByLabelText("Unit");
  await userEvent.selectOptions(unit, "seconds");
  expect(current()).toEqual({ windowSeconds: 20 });
  await userEvent.type(screen.getByLabelText("Steps (s)"), "5");
  expect(current()).toEqual({ windowSeconds: 20, resolutionSeconds: 5 });
  await userEvent.selectOptions(unit, "calendar day");
  expect(current()).toEqual({ windowCalendar: "DAY" });
  await userEvent.type(screen.getByPlaceholderText("UTC"), "Mars");
  expect(current()).toEqual({ windowCalendar: "DAY", zone: "Mars" });
  expect(screen.getByText("no zone")).toBeVisible();
  await userEvent.selectOptions(unit, "calendar month");
  expect(current()).toEqual({ windowCalendar: "MONTH", zone: "Mars" });
  await userEvent.selectOptions(unit, "minutes");
  expect(current()).toEqual({});
});
