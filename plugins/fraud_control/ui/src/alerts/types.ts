import type { Alert as ApiAlert } from "../api/types";

export type { CorrectionEvent } from "../api/types";

/** An alert with the members of its schema, without additional ones. */
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
  baseline?: ApiAlert["baseline"];
  lists?: ApiAlert["lists"];
  eventTime: number;
  ingestionTime: number;
  detectionTime: number;
  shadow: boolean;
  appendTime: number;
  position: string;
  correction: ApiAlert["correction"];
  mark: Mark | null;
  snoozed: boolean;
}

export type Mark = NonNullable<ApiAlert["mark"]>;
