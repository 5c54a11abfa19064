import type { Liveness } from "../api/types";
import { Chip } from "../components/Chip";
import { verdictText } from "../format";
import { useSilence } from "./useLiveness";

/** The verdict on the detector. It is unknown while the server does not answer. */
export function VerdictChip({ liveness }: { liveness: Liveness }) {
  if (useSilence()) return <Chip tone="warn">No answer</Chip>;
  return <Chip tone={liveness.verdict.tone}>{verdictText(liveness)}</Chip>;
}
