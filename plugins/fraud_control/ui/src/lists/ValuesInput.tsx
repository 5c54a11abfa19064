import { Button, FileButton, Group, Select, Textarea } from "@mantine/core";
import { useRef } from "react";
import { notifyError } from "../notifications";
import { capital, type CollectionKind } from "./types";

const DAY_MS = 86_400_000;
const DURATIONS = [
  { value: "", label: "Never" },
  { value: "1", label: "After 1 day" },
  { value: "7", label: "After 7 days" },
  { value: "30", label: "After 30 days" },
  { value: "90", label: "After 90 days" },
];

interface Props {
  label: string;
  content: string;
  change: (content: string) => void;
}

/** A text with one value or entry per line, typed, pasted or read from a file. */
export function ValuesInput({ label, content, change }: Props) {
  const resetFileInput = useRef<() => void>(null);
  const choose = (file: File | null) => {
    // A browser does not report the same file twice. The reset lets the user choose a corrected file again.
    resetFileInput.current?.();
    void file?.text().then(change, notifyError);
  };
  return (
    <>
      <Textarea
        label={label}
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

interface ExpiryProps {
  kind: CollectionKind;
  days: string;
  change: (days: string) => void;
}

/** The time after which the values or entries leave, in days; empty for never. */
export function ExpirySelect({ kind, days, change }: ExpiryProps) {
  return (
    <Select
      label={`${capital(kind.content)} expire`}
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
