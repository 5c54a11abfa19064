import { Anchor, Textarea } from "@mantine/core";
import type { SamplePayment } from "./useSample";

/** The sample payment and the payment before it, which the user can edit. */
export function SamplePaymentInput({ payment }: { payment: SamplePayment }) {
  const shared = {
    autosize: true,
    maxRows: 16,
    spellCheck: false,
    styles: { input: { fontFamily: "var(--mantine-font-family-monospace)" } },
  };
  return (
    <details>
      <summary>Sample payment</summary>
      <Textarea
        {...shared}
        aria-label="Sample payment"
        description="The newest payment with an alert, else one with any value of each field. Times are epoch ms."
        minRows={3}
        value={payment.text ?? ""}
        onChange={(event) => payment.edit(event.currentTarget.value)}
      />
      <Textarea
        {...shared}
        aria-label="Previous payment"
        description="The payment that previous(...) reads; empty for none."
        minRows={1}
        value={payment.previous}
        onChange={(event) => payment.editPrevious(event.currentTarget.value)}
      />
      {payment.isEdited && (
        <Anchor component="button" type="button" size="sm" onClick={() => payment.edit(null)}>
          Use the newest payment
        </Anchor>
      )}
    </details>
  );
}
