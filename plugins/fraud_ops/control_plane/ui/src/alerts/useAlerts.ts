import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { get, query } from "../api/http";
import type { Alerts } from "../api/types";
import { useLive } from "../live/LiveProvider";
import {
  type AlertFilter,
  corrected,
  type Listed,
  marked,
  type Rest,
  shownToo,
  wanted,
  withNews,
  withOlder,
} from "./alertList";
import type { Alert, Mark } from "./types";

const PAGE = 50;
/** News that is not shown yet is bounded too. */
const MOST_HELD = 400;

export interface AlertView {
  alerts: readonly Alert[];
  /** Ids of those that came while one looked. */
  fresh: ReadonlySet<string>;
  /** How many came while the list was held. */
  heldBack: number;
  loading: boolean;
  error: unknown;
  /** What follows the list, and whether it is being read. */
  rest: Rest;
  searching: boolean;
  older: () => void;
  again: () => void;
  mark: (alertId: string, mark: Mark | null) => void;
}

const NONE: Listed = { alerts: [], fresh: new Set(), rest: { next: null, searchedTo: null, missing: null } };

/** The alerts that a filter wants: a page of them, then what comes. While `held`, what comes waits. */
export function useAlerts(filter: AlertFilter, held: boolean): AlertView {
  const { subscribe } = useLive();
  const [listed, setListed] = useState<Listed>(NONE);
  const [waiting, setWaiting] = useState<readonly Alert[]>([]);
  const [heldBack, setHeldBack] = useState(0);
  const [settled, setSettled] = useState<object | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [searching, setSearching] = useState(false);
  const [round, setRound] = useState(0);
  const holding = useRef(held);
  const parameters = useMemo(
    () => ({
      ruleId: filter.ruleId,
      key: filter.key,
      shadow: filter.shadow,
      corrections: filter.corrections,
      snoozed: filter.snoozed,
    }),
    [filter.ruleId, filter.key, filter.shadow, filter.corrections, filter.snoozed],
  );
  // Another one for each reading: of another filter, or of the same once more.
  const asked = useMemo(() => ({ parameters, round }), [parameters, round]);
  const loading = settled !== asked;
  const again = useCallback(() => setRound((old) => old + 1), []);

  useEffect(() => {
    holding.current = held;
  }, [held]);

  useEffect(() => {
    const ended = new AbortController();
    // What comes while the page is being read must not be lost, nor be shown for another filter.
    let early: Alert[] | null = [];
    const came = (alerts: readonly Alert[], count: number) => {
      const news = alerts.filter((alert) => wanted(alert, parameters));
      if (news.length === 0) return;
      if (early !== null) early = withNews(early, news);
      else if (holding.current) {
        setWaiting((old) => withNews(old, news).slice(0, MOST_HELD));
        setHeldBack((old) => old + Math.max(news.length, alerts.length === news.length ? count : 0));
      } else setListed((old) => shownToo(old, news));
    };
    const stop = subscribe({
      alerts: came,
      correction: (event) => setListed((old) => ({ ...old, alerts: corrected(old.alerts, event, parameters) })),
      missed: again,
    });
    void get<Alerts>(`/alerts${query({ ...parameters, ...correctionsOf(parameters), limit: PAGE })}`, ended.signal)
      .then(
        (page) => {
          setListed({ alerts: withNews(page.items, early ?? []), fresh: new Set(), rest: restOf(page) });
          setWaiting([]);
          setHeldBack(0);
          setError(null);
        },
        (fault: unknown) => {
          if (!ended.signal.aborted) setError(fault);
        },
      )
      .finally(() => {
        early = null;
        if (!ended.signal.aborted) setSettled(asked);
      });
    return () => {
      stop();
      ended.abort();
    };
  }, [asked, parameters, subscribe, again]);

  // Let go: what waited is shown at once.
  if (!held && waiting.length > 0) {
    setListed(shownToo(listed, waiting));
    setWaiting([]);
    setHeldBack(0);
  }

  const older = useCallback(() => {
    const before = listed.rest.next;
    if (before === null) return;
    setSearching(true);
    void get<Alerts>(`/alerts${query({ ...parameters, ...correctionsOf(parameters), limit: PAGE, before })}`)
      .then(
        (page) =>
          // Another list may be there by now, or a reader who asked twice.
          setListed((old) =>
            old.rest.next === before ? { ...old, alerts: withOlder(old.alerts, page.items), rest: restOf(page) } : old,
          ),
        setError,
      )
      .finally(() => setSearching(false));
  }, [listed.rest.next, parameters]);

  const mark = useCallback(
    (alertId: string, given: Mark | null) =>
      setListed((old) => ({ ...old, alerts: marked(old.alerts, alertId, given) })),
    [],
  );
  return { ...listed, heldBack, loading, error, searching, older, again, mark };
}

/** The server leaves corrected alerts out for `false`, and all others for `true`. */
function correctionsOf({ corrections }: AlertFilter): { corrections: false | null } {
  return { corrections: corrections ? null : false };
}

function restOf({ next, searchedTo, missing }: Alerts): Rest {
  return { next, searchedTo, missing };
}
