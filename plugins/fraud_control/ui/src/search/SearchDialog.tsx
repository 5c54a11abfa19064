import { Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useState } from "react";
import { Link, useNavigate } from "react-router";
import { useRuleNames, useSchema } from "../api/hooks";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { SearchFound } from "../api/types";
import { Dialog } from "../components/Dialog";
import { ErrorAlert } from "../components/ErrorAlert";
import { moveFocus } from "../components/shortcuts";
import { formatCount } from "../format";
import { type Hit, hitsOf } from "./hits";

const TYPING_MS = 200;
const HITS = "a[data-hit]";

/** The search over everything: one text, and links to the findings. Enter opens the first one. */
export function SearchDialog({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [asked] = useDebouncedValue(text.trim(), TYPING_MS);
  const navigate = useNavigate();
  const names = useRuleNames();
  const fields = useSchema().data?.fields ?? [];
  const found = useQuery({
    queryKey: keys.search(asked),
    queryFn: ({ signal }) => get<SearchFound>(`/search${queryString({ q: asked })}`, signal),
    enabled: asked !== "",
    placeholderData: keepPreviousData,
  });
  const isCurrent = asked === text.trim() && !found.isPlaceholderData;
  const hits = found.data && asked !== "" ? hitsOf(found.data, asked, names, fields) : [];
  const first = isCurrent ? hits[0] : undefined;
  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    moveFocus(HITS, step);
  };
  return (
    <Dialog close={close} title="Search" size="lg">
      <form
        onKeyDown={move}
        onSubmit={(event) => {
          event.preventDefault();
          if (first === undefined) return;
          close();
          void navigate(first.path);
        }}
      >
        <TextInput
          type="search"
          aria-label="Search everything"
          placeholder="Payer or other ID, payment, rule, case, alert"
          data-autofocus
          value={text}
          maxLength={200}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        {found.error && <ErrorAlert error={found.error} />}
        <Text size="xs" c="dimmed" role="status" my="xs">
          {asked !== "" &&
            isCurrent &&
            found.data &&
            (hits.length === 0 ? "Nothing found" : formatCount(hits.length, "finding"))}
        </Text>
        <Hits hits={hits} close={close} />
      </form>
    </Dialog>
  );
}

function Hits({ hits, close }: { hits: readonly Hit[]; close: () => void }) {
  return (
    <ul className="plain" aria-label="Findings">
      {hits.map(({ path, kind, name, note }) => (
        <li key={path} className="hit">
          <span className="dimmed small">{kind}</span>
          <Link to={path} data-hit onClick={close} title={name}>
            {name}
          </Link>
          <span className="dimmed small">{note}</span>
        </li>
      ))}
    </ul>
  );
}
