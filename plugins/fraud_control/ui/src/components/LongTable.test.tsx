// @vitest-environment jsdom
import { Table } from "@mantine/core";
import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { LongTable } from "./LongTable";

mockServer();

test("all rows appear, in their order, after the first ones", async () => {
  const rendered: number[] = [];
  const items = Array.from({ length: 300 }, (_, position) => position);
  renderPage(
    <LongTable label="Numbers" columns={["Number"]} items={items}>
      {(item) => {
        rendered.push(item);
        return (
          <Table.Tr key={item}>
            <Table.Td>{item}</Table.Td>
          </Table.Tr>
        );
      }}
    </LongTable>,
  );
  expect(await screen.findByRole("cell", { name: "299" })).toBeVisible();
  expect(screen.getAllByRole("cell").map((cell) => cell.textContent)).toEqual(items.map(String));
  expect(rendered.slice(0, 21)).toEqual([...items.slice(0, 20), 0]);
});
