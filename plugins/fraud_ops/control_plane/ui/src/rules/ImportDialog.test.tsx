// @vitest-environment jsdom
import { Notifications, notifications } from "@mantine/notifications";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { afterEach, expect, test, vi } from "vitest";
import { API } from "../api/http";
import type { ImportResult } from "../api/types";
import { serve } from "../testing/serve";
import { show } from "../testing/show";
import { ImportDialog } from "./ImportDialog";

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

/** What was sent: looks, and imports. */
let looks: unknown[] = [];
let imports: unknown[] = [];

const server = serve();

afterEach(() => {
  notifications.clean();
  looks = [];
  imports = [];
});

/** The server says of each file that it does this; and of the doing of it `when`, where that is something else. */
function does(items: Item[], when: ImportResult = { items, applied: true }) {
  server.use(
    http.post(`*${API}/import`, async ({ request }) => {
      const dry = new URL(request.url).searchParams.get("dryRun") === "true";
      (dry ? looks : imports).push(await request.json());
      return HttpResponse.json(dry ? { items, applied: false } : when);
    }),
  );
}

function refuses(status: number, problem: { title: string; detail: string; reasons?: Item["reasons"] }) {
  server.use(http.post(`*${API}/import`, () => HttpResponse.json(problem, { status })));
}

function open() {
  const close = vi.fn();
  show(
    <>
      <ImportDialog close={close} />
      <Notifications />
    </>,
  );
  return close;
}

const content = () => screen.getByRole("textbox", { name: /^Rules \(JSON/u });
const button = (name: string) => screen.getByRole("button", { name });
const look = () => userEvent.click(button("Preview"));
const effects = async () =>
  within(await screen.findByRole("table", { name: "Import preview" }))
    .getAllByRole("row")
    .slice(1);

/** It has no role: what people press is the button before it. */
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

test("a file is shown, looked at and taken in, with the comment", async () => {
  does([ADDED, CHANGED]);
  const close = open();
  await choose('[{"ruleId": 7}, {"ruleId": 8}]');
  await waitFor(() => expect(content()).toHaveValue('[{"ruleId": 7}, {"ruleId": 8}]'));
  expect(button("Import"), "nobody has looked yet").toBeDisabled();
  await look();
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

test("what is wrong is said by rule and member, and keeps all of it out", async () => {
  does([ADDED, REJECTED]);
  open();
  await type("some rules");
  await look();
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

test("what is written after the look has to be looked at again", async () => {
  does([ADDED]);
  open();
  await type("one rule");
  await look();
  await effects();
  expect(button("Import")).toBeEnabled();
  await type(" more");
  expect(screen.queryByRole("table")).toBeNull();
  expect(button("Import")).toBeDisabled();
  await look();
  await effects();
  expect(looks).toMatchObject([{ content: "one rule" }, { content: "one rule more" }]);
});

test("nothing is looked at where there is nothing", () => {
  open();
  expect(button("Preview")).toBeDisabled();
  expect(button("Import")).toBeDisabled();
});

test("content that cannot be read is refused with the reasons", async () => {
  refuses(422, {
    title: "Something in it is not valid",
    detail: "it holds no rules",
    reasons: [{ field: "content", message: "is not JSON" }],
  });
  open();
  await type("no rule");
  await look();
  const trouble = await screen.findByRole("alert");
  expect(trouble).toHaveTextContent("it holds no rules");
  expect(within(trouble).getByRole("listitem")).toHaveTextContent("content is not JSON");
  expect(button("Import")).toBeDisabled();
});

test("an import that fails says so, and can be tried again", async () => {
  does([ADDED]);
  const close = open();
  await type("one rule");
  await look();
  await effects();
  refuses(503, { title: "Not available at the moment", detail: "the database cannot be reached" });
  await userEvent.click(button("Import"));
  expect(await screen.findByRole("alert")).toHaveTextContent("the database cannot be reached");
  expect(close).not.toHaveBeenCalled();
  does([ADDED]);
  await look();
  await waitFor(() => expect(looks).toHaveLength(2));
  expect(screen.queryByRole("alert"), "what failed is no longer said").toBeNull();
  await userEvent.click(button("Import"));
  await waitFor(() => expect(close).toHaveBeenCalledOnce());
});

test("a file that became wrong after the look is not said to be taken in", async () => {
  does([ADDED, CHANGED], { items: [ADDED, REJECTED], applied: false });
  const close = open();
  await type("some rules");
  await look();
  await effects();
  await userEvent.click(button("Import"));
  expect(await screen.findByRole("alert")).toHaveTextContent("Nothing imported");
  const [, wrong] = await effects();
  expect(wrong).toHaveTextContent("must be a number");
  expect(button("Import")).toBeDisabled();
  expect(close).not.toHaveBeenCalled();
  expect(screen.queryByText("File imported")).toBeNull();
});

test("a file that was corrected is read when it is chosen again", async () => {
  open();
  await choose("wrong");
  await waitFor(() => expect(content()).toHaveValue("wrong"));
  // A browser tells of a choice only where its name is not the one chosen already; here any file is another one.
  expect(fileInput()).toHaveValue("");
  await choose("right");
  await waitFor(() => expect(content()).toHaveValue("right"));
});
