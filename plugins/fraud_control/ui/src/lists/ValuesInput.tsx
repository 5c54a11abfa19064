import { Button, FileButton, Group, Select, Textarea } from "@mantine/core";
import { useRef } from "react";
import { notifyError } from "../notifications";

const DAY_MS = 86_400_000;
const DURATIONS = [
  { value: "", label: "Never" },
  { value: "1", label: "After 1 day" },
  { value: "7", label: "After 7 days" },
  { value: "30", label: "After 30 days" },
  { value: "90", label: "After 90 days" },
];

/** A text with one value per line, typed, pasted or read from a file. */
export function ValuesInput({ content, change }: { content: string; change: (content: string) => void }) {
  const resetFileInput = useRef<() => void>(null);
  const choose = (file: File | null) => {
    // A browser does not report the same file twice. The reset lets the user choose a corrected file again.
    resetFileInput.current?.();
    void file?.text().then(change, notifyError);
  };
  return (
    <>
      <Textarea
        label="Values, one per line"
        value={content}
        onChange={(event) => change(event.currentTarget.value)}
        minRows={6}
        maxRows={14}
        autosize
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
      />
      <Group mt="xs">
        <FileButton onChange={choose} resetRef={resetFileInput} accept=".txt,.csv,text/plain">
          {(props) => (
            <Button variant="default" {...props}>
              Choose file …
            </Button>
          )}
        </FileButton>
      </Group>
    </>
  );
}

/** The time after which the values leave the list, in days; empty for never. */
export function ExpirySelect({ days, change }: { days: string; change: (days: string) => void }) {
  return (
    <Select
      label="Values expire"
      data={DURATIONS}
      value={days}
      allowDeselect={false}
      onChange={(value) => change(value ?? "")}
      mt="xs"
      w="12rem"
    />
  );
}

/** The member of a request for this number of days. */
export function expiryOf(days: string): { expiresAt?: number } {
  return days === "" ? {} : { expiresAt: Date.now() + Number(days) * DAY_MS };
}
