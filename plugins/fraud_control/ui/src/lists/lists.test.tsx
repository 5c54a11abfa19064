// @vitest-environment jsdom
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { Route, Routes } from "react-router";
import { expect, test } from "vitest";
import { API } from "../api/http";
import { keys } from "../api/keys";
import type { ListRow, MapRow } from "../api/types";
import { mockServer } from "../testing/mockServer";
import { newClient, renderPage } from "../testing/renderPage";
import { ANALYST, liveness, VIEWER } from "../testing/samples";
import ListPage from "./ListPage";
import ListsPage from "./ListsPage";
import { LIST, MAP } from "./types";

const server = mockServer(
  http.get(`*${API}/me`, () => HttpResponse.json(ANALYST)),
  http.get(`*${API}/lists`, () => HttpResponse.json({ items: [list()] })),
  http.get(`*${API}/lists/mules`, () => HttpResponse.json(list())),
  http.get(`*${API}/lists/mules/values`, ({ request }) => {
    const { searchParams } = new URL(request.url);
    const next = searchParams.get("cursor");
    const values = searchParams.get("q") === "77" ? ["1077"] : next ? ["1003"] : ["1001", "9007199254740993"];
    return HttpResponse.json({
      items: values.map((value) => ({ value, expiresAt: value === "1001" ? 1_900_000_000_000 : null })),
      next: next || searchParams.get("q") ? null : "1002",
    });
  }),
);

function list(members: Partial<ListRow> = {}): ListRow {
  return {
    name: "mules",
    type: "long",
    size: 3,
    revision: 4,
    source: "ui",
    updatedAt: 1_700_000_000_000,
    updatedBy: "ben",
    published: true,
    rules: [{ ruleId: 7, name: "Listed mules", state: "ACTIVE" }],
    expiring: 1,
    nextExpiry: 1_900_000_000_000,
    activation: {
      logVersion: 12,
      ruleId: null,
      listName: "mules",
      mapName: null,
      status: "LIVE",
      reasons: [],
      batchId: 3,
      time: 1,
      warmUp: null,
    },
    pendingApproval: null,
    ...members,
  };
}

function renderList() {
  renderPage(
    <Routes>
      <Route path="/lists/:name" element={<ListPage kind={LIST} />} />
    </Routes>,
    { at: "/lists/mules" },
  );
}

test("the lists show their sizes, status and rules", async () => {
  renderPage(<ListsPage kind={LIST} />);
  const table = within(await screen.findByRole("table", { name: "Lists" }));
  expect(table.getByRole("link", { name: "mules" })).toHaveAttribute("href", "/lists/mules");
  expect(table.getByRole("link", { name: "Listed mules" })).toBeVisible();
  expect(table.getByText("Live")).toBeVisible();
});

test("no list is live during an outage", async () => {
  const client = newClient();
  client.setQueryData(keys.liveness, liveness({ severity: "RED" }));
  renderPage(<ListsPage kind={LIST} />, { client });
  expect(await screen.findByText("Not evaluated")).toHaveAttribute("data-tone", "warn");
  expect(screen.queryByText("Live")).toBeNull();
});

test("values are exact, searched and loaded page by page", async () => {
  renderList();
  expect(await screen.findByText("9007199254740993")).toBeVisible();
  await userEvent.click(screen.getByRole("button", { name: "Load more values" }));
  expect(await screen.findByText("1003")).toBeVisible();
  await userEvent.type(screen.getByRole("searchbox", { name: "Search values" }), "77");
  expect(await screen.findByText("1077")).toBeVisible();
});

test("an analyst previews and requests a change of a list of an active rule", async () => {
  const sent: unknown[] = [];
  server.use(
    http.post(`*${API}/lists/mules/preview`, () =>
      HttpResponse.json({ added: 1, removed: 0, addedValues: ["5"], removedValues: [] }),
    ),
    http.post(`*${API}/lists/mules/changes`, async ({ request }) => {
      sent.push(await request.json());
      return HttpResponse.json(list(), { status: 202 });
    }),
  );
  renderList();
  await userEvent.click(await screen.findByRole("button", { name: "Change values" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.type(dialog.getByRole("textbox", { name: "Values, one per line" }), "5");
  await userEvent.type(dialog.getByRole("textbox", { name: "Reason" }), "case 7");
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  expect(await dialog.findByText(/1 added, 0 removed/u)).toBeVisible();
  await userEvent.click(dialog.getByRole("button", { name: "Request change" }));
  await waitFor(() => expect(sent).toEqual([{ operation: "ADD", content: "5", comment: "case 7" }]));
});

test("the history shows author, comment and the values of a change", async () => {
  server.use(
    http.get(`*${API}/lists/mules/versions`, () =>
      HttpResponse.json({
        items: [
          {
            revision: 4,
            operation: "ADD",
            added: 2,
            removed: 0,
            expiresAt: null,
            author: "ben",
            at: 1_700_000_000_000,
            comment: "case 9",
            source: "ui",
            logVersion: 12,
            activation: list().activation,
          },
        ],
        next: null,
      }),
    ),
    http.get(`*${API}/lists/mules/diff`, () =>
      HttpResponse.json({ added: 2, removed: 0, addedValues: ["8", "9"], removedValues: [] }),
    ),
  );
  renderList();
  await userEvent.click(await screen.findByRole("tab", { name: "History" }));
  expect(await screen.findByText("case 9")).toBeVisible();
  await userEvent.click(screen.getByRole("button", { name: "Show values of revision 4" }));
  expect(await screen.findByText(/2 added, 0 removed/u)).toBeVisible();
});

test("a viewer changes nothing, and sees the changes of values without the values", async () => {
  const change = { revision: 4, logVersion: 3, operation: "ADD", added: 1, removed: 0, expiresAt: null };
  const written = { activation: null, author: "ben", source: "ui", at: 1, comment: "new case" };
  server.use(
    http.get(`*${API}/me`, () => HttpResponse.json(VIEWER)),
    http.get(`*${API}/lists/mules/versions`, () =>
      HttpResponse.json({ items: [{ ...change, ...written }], next: null }),
    ),
  );
  renderList();
  expect(await screen.findByText("new case")).toBeVisible();
  expect(screen.queryByRole("tab", { name: "Values" })).toBeNull();
  expect(screen.queryByRole("link", { name: "Download" })).toBeNull();
  expect(screen.queryByRole("button", { name: /Change values|Remove|Delete|Show values/u })).toBeNull();
});

test("a file of lists is previewed with its differences, and imported for the revisions of the preview", async () => {
  const sent: unknown[] = [];
  const item = (effect: string, reasons: { field: string; message: string }[]) => ({
    where: "list 1",
    name: "mules",
    effect,
    revision: 4,
    reasons,
    diff: { added: 1, removed: 30, addedValues: ["1009"], removedValues: ["1001", "1002"] },
  });
  server.use(
    http.post(`*${API}/import/lists`, async ({ request }) => {
      const body = (await request.json()) as { content: string };
      const dry = new URL(request.url).searchParams.get("dryRun") === "true";
      if (!dry) sent.push(body);
      const rejected = body.content === "mules,long,x";
      const items = [
        item(rejected ? "rejected" : "changed", rejected ? [{ field: "line 1", message: "is wrong" }] : []),
      ];
      return HttpResponse.json({ items, applied: !dry });
    }),
  );
  renderPage(<ListsPage kind={LIST} />);
  await userEvent.click(await screen.findByRole("button", { name: "Import" }));
  const content = await screen.findByRole("textbox", { name: /^Lists \(JSON/u });
  await userEvent.click(content);
  await userEvent.paste("mules,long,x");
  await userEvent.click(screen.getByRole("button", { name: "Preview" }));
  const dialog = within(screen.getByRole("dialog"));
  expect(await dialog.findByRole("listitem")).toHaveTextContent("line 1 is wrong");
  expect(dialog.getByRole("button", { name: "Import" })).toBeDisabled();
  await userEvent.clear(content);
  await userEvent.click(content);
  await userEvent.paste("mules,long,1009");
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  const row = (await dialog.findByText("changed")).closest("tr");
  expect(row).toHaveTextContent("1009");
  expect(row).toHaveTextContent("1001, 1002 and 28 more");
  await userEvent.click(dialog.getByRole("button", { name: "Import" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(sent).toEqual([{ content: "mules,long,1009", comment: "", revisions: { mules: 4 } }]);
});

function map(members: Partial<MapRow> = {}): MapRow {
  const { type: keyType, ...shared } = list({ name: "limits", activation: null });
  return { ...shared, keyType, valueType: "decimal", ...members };
}

function renderMap() {
  server.use(
    http.get(`*${API}/maps/limits`, () => HttpResponse.json(map())),
    http.get(`*${API}/maps/limits/entries`, () =>
      HttpResponse.json({ items: [{ key: "9007199254740993", value: "250.5", expiresAt: null }], next: null }),
    ),
  );
  renderPage(
    <Routes>
      <Route path="/maps/:name" element={<ListPage kind={MAP} />} />
    </Routes>,
    { at: "/maps/limits" },
  );
}

test("the entries of a map show keys with their values", async () => {
  renderMap();
  const table = within(await screen.findByRole("table", { name: "Entries" }));
  expect(table.getByText("9007199254740993")).toBeVisible();
  expect(table.getByText("250.5")).toBeVisible();
  expect(screen.getByText(/long to decimal entries/u)).toBeVisible();
});

test("pasted entries of a map are requested", async () => {
  const sent: unknown[] = [];
  renderMap();
  server.use(
    http.post(`*${API}/maps/limits/changes`, async ({ request }) => {
      sent.push(await request.json());
      return HttpResponse.json(map(), { status: 202 });
    }),
  );
  await userEvent.click(await screen.findByRole("button", { name: "Change entries" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.type(dialog.getByRole("textbox", { name: "Entries, one key,value per line" }), "7,300");
  await userEvent.type(dialog.getByRole("textbox", { name: "Reason" }), "case 7");
  await userEvent.click(dialog.getByRole("button", { name: "Request change" }));
  await waitFor(() => expect(sent).toEqual([{ operation: "ADD", content: "7,300", comment: "case 7" }]));
});
