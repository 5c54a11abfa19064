import { TextInput } from "@mantine/core";
import { useEffect, useRef, useState } from "react";

const TYPING_MS = 300;

/** A text that changes the filter when the user stops typing. A change from outside, such as a saved search, shows. */
export function TypedText({
  label,
  title,
  value,
  change,
}: {
  label: string;
  title: string;
  value: string;
  change: (value: string) => void;
}) {
  const [typed, setTyped] = useTyped(value, change);
  return (
    <TextInput
      type="search"
      aria-label={label}
      placeholder={label}
      title={title}
      value={typed}
      maxLength={200}
      onChange={(event) => setTyped(event.currentTarget.value)}
      style={{ flex: "1 1 9rem", maxWidth: "14rem" }}
    />
  );
}

/** A value while the user types. `change` gets it when the user stops typing. */
export function useTyped(value: string, change: (value: string) => void): [string, (value: string) => void] {
  const [typed, setTyped] = useState(value);
  const [shown, setShown] = useState(value);
  const latest = useRef(change);
  useEffect(() => {
    latest.current = change;
  }, [change]);
  if (shown !== value) {
    setShown(value);
    setTyped(value);
  }
  useEffect(() => {
    if (typed.trim() === value) return undefined;
    const timer = setTimeout(() => latest.current(typed.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed, value]);
  return [typed, setTyped];
}
