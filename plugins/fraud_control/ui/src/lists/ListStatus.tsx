import type { ListRow } from "../api/types";
import { ActivationChip, Chip } from "../components/Chip";

/** The detector's answer to the newest change of a list, and whether a request awaits approval. */
export function ListStatus({ list }: { list: ListRow }) {
  return (
    <>
      <ActivationChip activation={list.activation} />
      {list.pendingApproval && (
        <>
          {" "}
          <Chip tone="warn">Awaiting approval</Chip>
        </>
      )}
    </>
  );
}
