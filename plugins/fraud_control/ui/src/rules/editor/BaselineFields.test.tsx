// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, test } from "vitest";
import type { RuleDocument } from "../../api/types";
import { BaselineFields } from "./BaselineFields";

function Form({ start, reason }: { start: RuleDocument; reason?: string }) {
  const [rule, setRule] = useState(start);
  return (
    <>
      <BaselineFields
        rule={rule}
        errorOf={(...members) => (reason !== undefined && members.includes(reason) ? `wrong ${reason}` : null)}
        readOnly={false}
        change={(members) => setRule({ ...rule, ...members })}
      />
      <output>{JSON.stringify(rule)}</output>
    </>
  );
}

const show = (start: RuleDocument, reason?: string) =>
  render(
    <MantineProvider env="test">
      <Form start={start} {...(reason === undefined ? {} : { reason })} />
    </MantineProvider>,
  );

const current = () => JSON.parse(screen.getByRole("status").textContent) as RuleDocument;

test("a baseline is added, edited and removed", async () => {
  show({ limit: 3 });
  const compares = screen.getByLabelText("Compare with the past of the same key");
  await userEvent.click(compares);
  expect(current()).toEqual({ limit: 3, baseline: { windowMinutes: 1440 } });
  await userEvent.selectOptions(screen.getByLabelText("Baseline unit"), "seconds");
  expect(current()).toEqual({ limit: 3, baseline: { windowSeconds: 1440 } });
  await userEvent.click(screen.getByLabelText("Limit in standard deviations"));
  await userEvent.type(screen.getByLabelText("Baseline filter"), "x");
  expect(current()).toEqual({ limit: 3, baseline: { windowSeconds: 1440, deviations: true, filter: "x" } });
  await userEvent.click(compares);
  expect(current()).toEqual({ limit: 3 });
});

test("errors are at the fields of their members", () => {
  show({ baseline: { windowMinutes: 60 } }, "baseline.minCount");
  expect(screen.getByText("wrong baseline.minCount")).toBeVisible();
  expect(screen.getByLabelText("Minimum count")).toHaveAttribute("aria-invalid", "true");
});
