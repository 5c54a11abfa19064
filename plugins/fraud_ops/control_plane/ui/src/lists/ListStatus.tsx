import type { Activation, ListRow } from "../api/types";
import { Chip } from "../components/Chip";

/** The detector's answer to the newest change of a list, and whether a request awaits approval. */
export function ListStatus({ list }: { list: ListRow }) {
  return (
    <>
      <ChangeStatus activation={list.activation} />
      {list.pendingApproval && (
        <>
          {" "}
          <Chip tone="warn">Awaiting approval</Chip>
        </>
      )}
    </>
  );
}

/** The detector's answer to a change of a list. */
export function ChangeStatus({ activation }: { activation: Activation | null }) {
  if (activation?.status === "LIVE") {
    return (
      <Chip tone="good" title={`Detector uses list version ${activation.logVersion}`}>
        <span className="dot" aria-hidden />
        Live
      </Chip>
    );
  }
  if (activation?.status === "REJECTED") {
    const reasons = activation.reasons.map((reason) => `${reason.field}: ${reason.message}`).join("\n");
    return (
      <Chip tone="bad" title={reasons}>
        Rejected
      </Chip>
    );
  }
  return (
    <Chip tone="warn" title="Not yet read by the detector">
      Pending
    </Chip>
  );
}
