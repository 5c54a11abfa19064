import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef, useState } from "react";
import { parseExactly } from "../api/exactJson";
import { API } from "../api/http";
import type { Activation, Alert, AlertBatch, CorrectionEvent, ProgressPoint, RuleChanged } from "../api/types";
import { counted, operated, progressed, ruleChanged } from "./caches";
import { EventStream, type StreamEvent, type StreamState } from "./eventStream";

/** What pages that show alerts are told of. `missed`: alerts are older than the server's memory, read them anew. */
export interface AlertNews {
  alerts: (alerts: readonly Alert[], count: number) => void;
  correction: (correction: CorrectionEvent) => void;
  missed: () => void;
}

interface Live {
  state: StreamState;
  subscribe: (news: AlertNews) => () => void;
}

const LiveContext = createContext<Live>({ state: "connecting", subscribe: () => () => undefined });

/** One stream for all pages of a tab: it keeps what they have read up to date. */
export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [state, setState] = useState<StreamState>("connecting");
  const subscribers = useRef(new Set<AlertNews>());

  useEffect(() => {
    let wasLost = false;
    const told = (tell: (news: AlertNews) => void) => subscribers.current.forEach(tell);
    const came = (alerts: readonly Alert[], count: number) => {
      counted(
        client,
        alerts.map((alert) => alert.ruleId),
      );
      told((news) => news.alerts(alerts, count));
    };
    const handle = ({ name, data }: StreamEvent) => {
      const body = parseExactly(data);
      if (name === "alert") came([body as Alert], 1);
      else if (name === "alerts") came((body as AlertBatch).items, (body as AlertBatch).count);
      else if (name === "correction") told((news) => news.correction(body as CorrectionEvent));
      else if (name === "operation") operated(client, body as Activation);
      else if (name === "rules") void ruleChanged(client, body as RuleChanged);
      else if (name === "progress") progressed(client, body as ProgressPoint);
      else if (name === "gap") {
        told((news) => news.missed());
        void client.invalidateQueries();
      }
    };
    const stream = new EventStream(`${API}/alerts/stream`, {
      event: handle,
      state: (now) => {
        if (now === "open" && wasLost) void client.invalidateQueries();
        wasLost = now === "lost" || (wasLost && now !== "open");
        setState(now);
      },
    });
    return () => stream.close();
  }, [client]);

  const live = useMemo<Live>(
    () => ({
      state,
      subscribe: (news) => {
        subscribers.current.add(news);
        return () => subscribers.current.delete(news);
      },
    }),
    [state],
  );
  return <LiveContext value={live}>{children}</LiveContext>;
}

/** The stream's state, and its news. */
export function useLive(): Live {
  return useContext(LiveContext);
}
