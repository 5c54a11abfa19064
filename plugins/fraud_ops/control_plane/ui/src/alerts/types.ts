import type { Alert as Sent } from "../api/types";

export type { CorrectionEvent } from "../api/types";

/** An alert with the members that its shape declares, without those that are let through. */
export interface Alert {
  alertId: string;
  ruleId: number;
  ruleVersion: number;
  violatedRule: Record<string, unknown>;
  key: Record<string, unknown>;
  triggeringValue: string;
  triggeringEvent: Record<string, unknown>;
  windowStart: number;
  windowEnd: number;
  windowCount: number;
  windowComplete: boolean;
  suppressed: number;
  eventTime: number;
  ingestionTime: number;
  detectionTime: number;
  shadow: boolean;
  appendTime: number;
  position: string;
  correction: Sent["correction"];
  mark: Mark | null;
  snoozed: boolean;
}

export type Mark = NonNullable<Sent["mark"]>;
