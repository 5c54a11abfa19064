import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react";
import { parseExactly } from "../api/exactJson";
import { API } from "../api/http";
import { reread } from "../api/reread";
import type { Activation, Alert, AlertBatch, CorrectionEvent, RuleChanged } from "../api/types";
import { applyActivation, refreshRule } from "./cacheUpdates";
import type { StreamEvent, StreamState } from "./eventStream";
import { SharedStream } from "./sharedStream";

/**
 * The callbacks for alert events. `opened`: the stream has begun, and has no event from before. `gap`: events are missing
 * because the server dropped them or the connection was lost, so read the alerts again.
 */
export interface AlertSubscriber {
  opened: () => void;
  alerts: (alerts: readonly Alert[], count: number) => void;
  correction: (correction: CorrectionEvent) => void;
  gap: () => void;
}

interface Stream {
  state: StreamState;
  subscribe: (subscriber: AlertSubscriber) => () => void;
}

const StreamContext = createContext<Stream>({ state: "connecting", subscribe: () => () => undefined });

/** One event stream for all pages of a browser. It keeps the query cache of this tab current. */
export function StreamProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [state, setState] = useState<StreamState>("connecting");
  const subscribers = useRef(new Set<AlertSubscriber>());

  useEffect(() => {
    let wasLost = false;
    let wasOpen = false;
    const notify = (call: (subscriber: AlertSubscriber) => void) => subscribers.current.forEach(call);
    const addAlerts = (alerts: readonly Alert[], count: number) =>
      notify((subscriber) => subscriber.alerts(alerts, count));
    const fillGap = () => {
      notify((subscriber) => subscriber.gap());
      reread(client, []);
    };
    const handle = ({ name, data }: StreamEvent) => {
      const body = parseExactly(data);
      if (name === "alert") addAlerts([body as Alert], 1);
      else if (name === "alerts") addAlerts((body as AlertBatch).items, (body as AlertBatch).count);
      else if (name === "correction") notify((subscriber) => subscriber.correction(body as CorrectionEvent));
      else if (name === "operation") applyActivation(client, body as Activation);
      else if (name === "rules") void refreshRule(client, body as RuleChanged);
      else if (name === "gap") fillGap();
    };
    const stream = new SharedStream(`${API}/alerts/stream`, {
      event: handle,
      state: (now) => {
        if (now === "open" && wasLost) fillGap();
        else if (now === "open" && !wasOpen) notify((subscriber) => subscriber.opened());
        wasOpen ||= now === "open";
        wasLost = now === "lost" || (wasLost && now !== "open");
        setState(now);
      },
    });
    return () => stream.close();
  }, [client]);

  const subscribe = useCallback((subscriber: AlertSubscriber) => {
    subscribers.current.add(subscriber);
    return () => subscribers.current.delete(subscriber);
  }, []);
  const value = useMemo<Stream>(() => ({ state, subscribe }), [state, subscribe]);
  return <StreamContext value={value}>{children}</StreamContext>;
}

/** The state of the stream, and the subscription to alert events. */
export function useStream(): Stream {
  return useContext(StreamContext);
}
