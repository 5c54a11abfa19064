import { Loader } from "@mantine/core";

/** A spinner that assistive technology announces. */
export function Loading() {
  return <Loader size="sm" role="status" aria-label="Loading" />;
}
