// @vitest-environment jsdom
import { renderHook } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";
import { mockServer } from "../testing/mockServer";
import { API } from "./http";
import { useSubmission } from "./useSubmission";

const sent: (string | null)[] = [];
let answer: () => Response = () => HttpResponse.json({});
mockServer(
  http.all(`*${API}/*`, ({ request }) => {
    sent.push(request.headers.get("Idempotency-Key"));
    return answer();
  }),
);

const failed = (status: number) => () => HttpResponse.json({ title: "No" }, { status });

test("a request whose answer got lost keeps its key, and each other POST has a new one", async () => {
  const { current: submit } = renderHook(() => useSubmission()).result;
  const note = (comment: string) => submit("/cases/7/comments", { method: "POST", body: { comment } });
  answer = () => HttpResponse.error();
  await expect(note("seen")).rejects.toThrow();
  answer = failed(503);
  await expect(note("seen")).rejects.toThrow();
  answer = () => HttpResponse.json({});
  await note("seen");
  await note("seen");
  answer = failed(409);
  await expect(note("other")).rejects.toThrow();
  await expect(note("other")).rejects.toThrow();
  answer = () => HttpResponse.json({});
  await submit("/rules/7", { method: "PUT", body: {} });
  const [lost, busy, done, next, refused, again, put] = sent;
  expect(lost).toMatch(/^[!-~]{8,128}$/u);
  expect([busy, done]).toEqual([lost, lost]);
  expect(new Set([lost, next, refused, again]).size).toBe(4);
  expect(put).toBeNull();
});
