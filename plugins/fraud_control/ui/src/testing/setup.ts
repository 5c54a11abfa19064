import "@testing-library/jest-dom/vitest";
import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";

if (typeof window !== "undefined") {
  // Test files share a page and its modules.
  const { notifications } = await import("@mantine/notifications");
  afterEach(() => {
    cleanup();
    notifications.clean();
  });
  configure({ asyncUtilTimeout: 10_000 }); // the default of 1 s is too short on a busy machine

  // Browser functions that the components call and jsdom lacks.
  const nothing = () => undefined;
  window.matchMedia = (query: string) =>
    ({
      matches: false,
      media: query,
      addEventListener: nothing,
      removeEventListener: nothing,
    }) as unknown as MediaQueryList;
  window.ResizeObserver = class {
    observe = nothing;
    unobserve = nothing;
    disconnect = nothing;
  };
  window.scrollTo = nothing;
  Object.assign(document, { fonts: { addEventListener: nothing, removeEventListener: nothing } });
  Element.prototype.scrollIntoView = nothing;
  Blob.prototype.text = function () {
    return new Promise((resolve) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result as string);
      reader.readAsText(this);
    });
  };
  Range.prototype.getClientRects = () => [] as unknown as DOMRectList;
  Range.prototype.getBoundingClientRect = () => new DOMRect();
}
