// @vitest-environment jsdom
import { Notifications } from "@mantine/notifications";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { afterEach, expect, test, vi } from "vitest";
import { API } from "../api/http";
import type { ImportResult } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { renderPage } from "../testing/renderPage";
import { ImportRulesDialog } from "./ImportRulesDialog";

type Item = ImportResult["items"][number];

const ADDED: Item = { where: "rule 1", ruleId: 7, effect: "added", reasons: [] };
const CHANGED: Item = { where: "rule 2", ruleId: 8, effect: "changed", reasons: [] };
const REJECTED: Item = {
  where: "rule 2",
  ruleId: 8,
  effect: "rejected",
  reasons: [
    { field: "limit", message: "must be a number" },
    { field: "windowMinutes", message: "is required" },
  ],
};

/** The requests that the server received: previews and imports. */
let previews: unknown[] = [];
let imports: unknown[] = [];

const server = mockServer();

afterEach(() => {
  previews = [];
  imports = [];
});

/** The server answers a preview with `items`, and an import with `onImport`. */
function answer(items: Item[], onImport: ImportResult = { items, applied: true }) {
  server.use(
    http.post(`*${API}/import`, async ({ request }) => {
      const dry = new URL(request.url).searchParams.get("dryRun") === "true";
      (dry ? previews : imports).push(await request.json());
      return HttpResponse.json(dry ? { items, applied: false } : onImport);
    }),
  );
}

function refuse(status: number, problem: { title: string; detail: string; reasons?: Item["reasons"] }) {
  server.use(http.post(`*${API}/import`, () => HttpResponse.json(problem, { status })));
}

function open() {
  const close = vi.fn();
  renderPage(
    <>
      <ImportRulesDialog close={close} />
      <Notifications />
    </>,
  );
  return close;
}

const content = () => screen.getByRole("textbox", { name: /^Rules \(JSON/u });
const button = (name: string) => screen.getByRole("button", { name });
const preview = () => userEvent.click(button("Preview"));
const effects = async () =>
  within(await screen.findByRole("table", { name: "Import preview" }))
    .getAllByRole("row")
    .slice(1);

/** The file input has no role; users press the button in front of it. */
function fileInput(): HTMLInputElement {
  const input = document.querySelector<HTMLInputElement>("input[type=file]");
  if (input === null) throw new Error("no file can be chosen");
  return input;
}

const choose = (text: string) => userEvent.upload(fileInput(), new File([text], "rules.json"));

async function type(text: string) {
  await userEvent.click(content());
  await userEvent.paste(text);
}

test("a file is shown, previewed and imported, with the comment", async () => {
  answer([ADDED, CHANGED]);
  const close = open();
  await choose('[{"ruleId": 7}, {"ruleId": 8}]');
  await waitFor(() => expect(content()).toHaveValue('[{"ruleId": 7}, {"ruleId": 8}]'));
  expect(button("Import"), "there is no preview yet").toBeDisabled();
  await preview();
  const [first, second] = await effects();
  expect(first).toHaveTextContent(/rule 1.*7.*added/u);
  expect(second).toHaveTextContent(/rule 2.*8.*changed/u);
  expect(imports).toEqual([]);
  await userEvent.type(screen.getByRole("textbox", { name: "Comment" }), "from the test system");
  await userEvent.click(button("Import"));
  await waitFor(() => expect(close).toHaveBeenCalledOnce());
  expect(imports).toEqual([{ content: '[{"ruleId": 7}, {"ruleId": 8}]', comment: "from the test system" }]);
  expect(await screen.findByText("File imported")).toBeVisible();
});

test("an import that requests approvals asks for the reason", async () => {
  answer([{ ...CHANGED, effect: "requested" }]);
  const close = open();
  await type("a rule");
  await preview();
  await effects();
  await userEvent.click(button("Import"));
  expect(imports).toEqual([]);
  await userEvent.type(screen.getByRole("textbox", { name: "Reason" }), "new limits");
  await userEvent.click(button("Import"));
  await waitFor(() => expect(close).toHaveBeenCalledOnce());
  expect(imports).toEqual([{ content: "a rule", comment: "new limits" }]);
});

test("errors are listed by rule and field, and prevent the import", async () => {
  answer([ADDED, REJECTED]);
  open();
  await type("some rules");
  await preview();
  const [fine, wrong] = await effects();
  expect(fine && within(fine).queryAllByRole("listitem")).toEqual([]);
  expect(wrong).toHaveTextContent("rejected");
  expect(
    wrong &&
      within(wrong)
        .getAllByRole("listitem")
        .map((each) => each.textContent),
  ).toEqual(["limit must be a number", "windowMinutes is required"]);
  await userEvent.click(button("Import"));
  expect(button("Import")).toBeDisabled();
  expect(imports).toEqual([]);
});

test("an edit after the preview requires another preview", async () => {
  answer([ADDED]);
  open();
  await type("one rule");
  await preview();
  await effects();
  expect(button("Import")).toBeEnabled();
  await type(" more");
  expect(screen.queryByRole("table")).toBeNull();
  expect(button("Import")).toBeDisabled();
  await preview();
  await effects();
  expect(previews).toMatchObject([{ content: "one rule" }, { content: "one rule more" }]);
});

test("empty content cannot be previewed", () => {
  open();
  expect(button("Preview")).toBeDisabled();
  expect(button("Import")).toBeDisabled();
});

test("unreadable content is refused with reasons", async () => {
  refuse(422, {
    title: "Invalid input",
    detail: "it holds no rules",
    reasons: [{ field: "content", message: "is not JSON" }],
  });
  open();
  await type("no rule");
  await preview();
  const trouble = await screen.findByRole("alert");
  expect(trouble).toHaveTextContent("it holds no rules");
  expect(within(trouble).getByRole("listitem")).toHaveTextContent("content is not JSON");
  expect(button("Import")).toBeDisabled();
});

test("a failed import shows the error and can be repeated", async () => {
  answer([ADDED]);
  const close = open();
  await type("one rule");
  await preview();
  await effects();
  refuse(503, { title: "Temporarily unavailable", detail: "the database cannot be reached" });
  await userEvent.click(button("Import"));
  expect(await screen.findByRole("alert")).toHaveTextContent("the database cannot be reached");
  expect(close).not.toHaveBeenCalled();
  answer([ADDED]);
  await preview();
  await waitFor(() => expect(previews).toHaveLength(2));
  expect(screen.queryByRole("alert"), "the old error is gone").toBeNull();
  await userEvent.click(button("Import"));
  await waitFor(() => expect(close).toHaveBeenCalledOnce());
});

test("a file that became invalid after the preview is not imported", async () => {
  answer([ADDED, CHANGED], { items: [ADDED, REJECTED], applied: false });
  const close = open();
  await type("some rules");
  await preview();
  await effects();
  await userEvent.click(button("Import"));
  expect(await screen.findByRole("alert")).toHaveTextContent("Nothing imported");
  const [, wrong] = await effects();
  expect(wrong).toHaveTextContent("must be a number");
  expect(button("Import")).toBeDisabled();
  expect(close).not.toHaveBeenCalled();
  expect(screen.queryByText("File imported")).toBeNull();
});

test("a corrected file can be chosen again", async () => {
  open();
  await choose("wrong");
  await waitFor(() => expect(content()).toHaveValue("wrong"));
  // A browser reports a choice only if the file name differs from the chosen one; in jsdom every file differs.
  expect(fileInput()).toHaveValue("");
  await choose("right");
  await waitFor(() => expect(content()).toHaveValue("right"));
});
