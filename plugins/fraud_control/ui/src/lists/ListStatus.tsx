import { ActivationChip, Chip } from "../components/Chip";
import type { CollectionRow } from "./types";

/** The detector's answer to the newest change of a list or map, and whether a request awaits approval. */
export function ListStatus({ list }: { list: CollectionRow }) {
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
