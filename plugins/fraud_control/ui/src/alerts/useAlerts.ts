import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useSchema } from "../api/hooks";
import { get } from "../api/http";
import type { Alerts } from "../api/types";
import { amountField } from "../fields";
import { useStream } from "../stream/StreamProvider";
import {
  addAlerts,
  type AlertList,
  appendOlder,
  applyCorrection,
  applyMark,
  type Continuation,
  mergeAlerts,
} from "./alertList";
import { type AlertFilter, filterOf, isLive, matches, parametersOf } from "./alertSearch";
import type { Alert, Mark } from "./types";

const PAGE_SIZE = 50;
/** The maximum number of alerts that wait while the list is paused. */
const MAX_WAITING = 400;

export interface AlertListView {
  alerts: readonly Alert[];
  /** The ids of the alerts that arrived last. */
  newIds: ReadonlySet<string>;
  /** The number of alerts that arrived while the list was paused. */
  newCount: number;
  loading: boolean;
  error: unknown;
  /** The position at which the list continues. */
  continuation: Continuation;
  loadingOlder: boolean;
  loadOlder: () => void;
  reload: () => void;
  setMark: (alertId: string, setMark: Mark | null) => void;
}

/** The view as the state of a query: without data while the first alerts load. */
export function queryOf(view: AlertListView) {
  return {
    data: view.loading && view.alerts.length === 0 ? undefined : view.alerts,
    error: view.error,
    isPending: view.loading,
    refetch: view.reload,
  };
}

const EMPTY: AlertList = {
  alerts: [],
  newIds: new Set(),
  continuation: { next: null, searchedTo: null, missing: null },
};

/** The alerts that match a filter: the newest page, then each new alert. While `paused`, new alerts wait. */
export function useAlerts(filter: AlertFilter, paused: boolean): AlertListView {
  const { subscribe } = useStream();
  const [list, setList] = useState<AlertList>(EMPTY);
  const [waiting, setWaiting] = useState<readonly Alert[]>([]);
  const [newCount, setNewCount] = useState(0);
  const [finishedRequest, setFinishedRequest] = useState<object | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [loadingOlder, setLoadingOlder] = useState(false);
  const [reloads, setReloads] = useState(0);
  const pausedRef = useRef(paused);
  const parameters = new URLSearchParams(parametersOf(filter)).toString();
  const amountName = useRef<string | null>(null);
  const { data: schema } = useSchema();
  // A new object for each read: after a change of the filter, or after a reload.
  const request = useMemo(() => ({ parameters, reloads }), [parameters, reloads]);
  const loading = finishedRequest !== request;
  const reload = useCallback(() => setReloads((old) => old + 1), []);

  useEffect(() => {
    pausedRef.current = paused;
  }, [paused]);

  useEffect(() => {
    amountName.current = amountField(schema?.fields ?? [])?.name ?? null;
  }, [schema]);

  useEffect(() => {
    const controller = new AbortController();
    // Alerts that arrive during the read are added to its result. They belong to this filter only.
    let received: Alert[] | null = [];
    const wanted = filterOf(new URLSearchParams(parameters));
    const isWanted = (alert: Alert) => isLive(wanted) && matches(alert, wanted, amountName.current);
    const receive = (alerts: readonly Alert[], count: number) => {
      const added = alerts.filter(isWanted);
      if (added.length === 0) return;
      if (received !== null) received = mergeAlerts(received, added);
      else if (pausedRef.current) {
        setWaiting((old) => mergeAlerts(old, added).slice(0, MAX_WAITING));
        setNewCount((old) => old + Math.max(added.length, alerts.length === added.length ? count : 0));
      } else setList((old) => addAlerts(old, added));
    };
    let isComplete = true;
    // An alert can arrive between the read and the opening of the stream: show the result, and read again.
    const opened = () => {
      if (!isLive(wanted)) return;
      if (received === null) reload();
      else isComplete = false;
    };
    const stop = subscribe({
      opened,
      alerts: receive,
      correction: (event) => setList((old) => ({ ...old, alerts: applyCorrection(old.alerts, event, isWanted) })),
      gap: reload,
    });
    void get<Alerts>(`/alerts?${pageQuery(parameters)}`, controller.signal)
      .then(
        (page) => {
          setList({
            alerts: isLive(wanted) ? mergeAlerts(page.items, received ?? []) : page.items,
            newIds: new Set(),
            continuation: continuationOf(page),
          });
          setWaiting([]);
          setNewCount(0);
          setError(null);
        },
        (failure: unknown) => {
          if (!controller.signal.aborted) setError(failure);
        },
      )
      .finally(() => {
        received = null;
        if (controller.signal.aborted) return;
        setFinishedRequest(request);
        if (!isComplete) reload();
      });
    return () => {
      stop();
      controller.abort();
    };
  }, [request, parameters, subscribe, reload]);

  // The list resumes: show the alerts that waited.
  if (!paused && waiting.length > 0) {
    setList(addAlerts(list, waiting));
    setWaiting([]);
    setNewCount(0);
  }

  const loadOlder = useCallback(() => {
    const before = list.continuation.next;
    if (before === null) return;
    setLoadingOlder(true);
    void get<Alerts>(`/alerts?${pageQuery(parameters, before)}`)
      .then(
        (page) =>
          // The list can have changed since the request, or the user clicked twice.
          setList((old) =>
            old.continuation.next === before
              ? { ...old, alerts: appendOlder(old.alerts, page.items), continuation: continuationOf(page) }
              : old,
          ),
        setError,
      )
      .finally(() => setLoadingOlder(false));
  }, [list.continuation.next, parameters]);

  const setMark = useCallback(
    (alertId: string, mark: Mark | null) =>
      setList((old) => ({ ...old, alerts: applyMark(old.alerts, alertId, mark) })),
    [],
  );
  return { ...list, newCount, loading, error, loadingOlder, loadOlder, reload, setMark };
}

function pageQuery(parameters: string, before?: string): string {
  const query = new URLSearchParams(parameters);
  query.set("limit", String(PAGE_SIZE));
  if (before !== undefined) query.set("before", before);
  return query.toString();
}

function continuationOf({ next, searchedTo, missing }: Alerts): Continuation {
  return { next, searchedTo, missing };
}
