// @vitest-environment jsdom
import { act, render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { useNow, useShownAt } from "./useNow";

function Clock({ name }: { name: string }) {
  return <output aria-label={name}>{`${useNow().toString()} ${useShownAt().toString()}`}</output>;
}

test("components that begin at different times show the same time", async () => {
  vi.useFakeTimers();
  try {
    const { rerender } = render(<Clock name="banner" />);
    await act(() => vi.advanceTimersByTimeAsync(700));
    rerender(
      <>
        <Clock name="banner" />
        <Clock name="page" />
      </>,
    );
    const seen = new Set<string>();
    for (let step = 0; step < 30; step++) {
      await act(() => vi.advanceTimersByTimeAsync(100));
      const shown = screen.getByLabelText("banner").textContent;
      expect(screen.getByLabelText("page")).toHaveTextContent(shown);
      seen.add(shown);
    }
    expect(seen.size).toBeGreaterThan(2);
  } finally {
    vi.useRealTimers();
  }
});
