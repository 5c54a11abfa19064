import { Anchor, Textarea } from "@mantine/core";
import type { SamplePayment } from "./useSample";

/** The sample payment, which the user can edit. */
export function SamplePaymentInput({ payment }: { payment: SamplePayment }) {
  return (
    <details>
      <summary>Sample payment</summary>
      <Textarea
        aria-label="Sample payment"
        description="The newest payment with an alert, else one with any value of each field. Times are epoch ms."
        autosize
        minRows={3}
        maxRows={16}
        spellCheck={false}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
        value={payment.text ?? ""}
        onChange={(event) => payment.edit(event.currentTarget.value)}
      />
      {payment.isEdited && (
        <Anchor component="button" type="button" size="sm" onClick={() => payment.edit(null)}>
          Use the newest payment
        </Anchor>
      )}
    </details>
  );
}
