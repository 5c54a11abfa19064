import { ActionIcon, Button } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useCan } from "../api/hooks";
import { API, queryString } from "../api/http";
import type { Alert } from "./types";

/** Downloads the proof of an alert, a file that `fraud verify` checks. Its records have whole ids. */
export function ProofLink({ alert: { alertId, position, correction } }: { alert: Alert }) {
  const can = useCan();
  if (!can("readIds")) return null;
  const asked = correction?.kind === "RETRACTED" ? [null, "true"] : [null];
  return asked.map((retraction) => (
    <Button
      key={retraction}
      component="a"
      variant="default"
      href={`${API}/alerts/${alertId}/proof${queryString({ position, retraction })}`}
      download
      leftSection={<IconDownload size={14} aria-hidden />}
    >
      {retraction === null ? "Download proof" : "Download proof of retraction"}
    </Button>
  ));
}

/** The same as an icon, for an alert of the index. `of` names the alert for a screen reader. */
export function ProofIcon({ alertId, of }: { alertId: string; of: string }) {
  return <ProofDownload href={`${API}/alerts/${alertId}/proof`} of={of} />;
}

/** Downloads the proof of the decision about a payment, with the proofs of its alerts. */
export function DecisionProof({ transactionId }: { transactionId: string }) {
  const href = `${API}/decisions/proof${queryString({ transaction: transactionId })}`;
  return <ProofDownload href={href} of={`decision, payment ${transactionId}`} />;
}

function ProofDownload({ href, of }: { href: string; of: string }) {
  const can = useCan();
  if (!can("readIds")) return null;
  const label = `Download proof: ${of}`;
  return (
    <ActionIcon
      component="a"
      variant="subtle"
      color="gray"
      size="sm"
      href={href}
      download
      aria-label={label}
      title={label}
    >
      <IconDownload size={14} aria-hidden />
    </ActionIcon>
  );
}
