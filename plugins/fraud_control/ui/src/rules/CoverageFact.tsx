import { Chip } from "../components/Chip";
import { Fact } from "../components/Fact";
import { formatDuration } from "../format";
import type { WhatIfResult } from "../api/types";

/** The days of a what-if with data. Its rates divide by the covered time, and warn if it is short. */
export function CoverageFact({ coverage }: { coverage: WhatIfResult["coverage"] }) {
  const { days, daysWithData, coveredMs, thin } = coverage;
  return (
    <Fact name="Days with data">
      {daysWithData} of {days}{" "}
      {thin && <Chip tone="warn">Little data ({formatDuration(coveredMs)}): rates are rough</Chip>}
    </Fact>
  );
}
