import type { components } from "./openapi";

type Schemas = components["schemas"];

export type Activation = Schemas["Activation"];
export type Alarm = Schemas["AlarmShown"];
export type Alarms = Schemas["Alarms"];
export type Alert = Schemas["Alert"];
export type AlertBatch = Schemas["AlertBatch"];
export type Alerts = Schemas["Alerts"];
export type Approval = Schemas["Approval"];
export type ApprovalFigures = Schemas["ApprovalFigures"];
export type Approvals = Schemas["Paged_Approval_str_"];
export type Audits = Schemas["Paged_AuditRow_str_"];
export type ArchivedDays = Schemas["ArchivedDays"];
export type AuditRow = Schemas["AuditRow"];
export type AuditState = Schemas["AuditState"];
export type Assignees = Schemas["Items_str_"];
export type Bindings = Schemas["Items_Binding_"];
export type BulkMarks = Schemas["BulkMarks"];
export type Case = Schemas["Case"];
export type CaseDetail = Schemas["CaseDetail"];
export type CaseEvent = Schemas["CaseEvent"];
export type CaseOutcome = Schemas["CaseOutcome"];
export type CaseOverview = Schemas["CaseOverviewShown"];
export type Cases = Schemas["Paged_Case_int_"];
export type CaseStatus = Schemas["CaseStatus"];
export type Change = Schemas["Change"];
export type ControlName = Schemas["ControlName"];
export type CorrectionEvent = Schemas["CorrectionEvent"];
export type DataFault = Schemas["DataFault"];
export type DataHealth = Schemas["DataHealth"];
export type Decisions = Schemas["Paged_PaymentDecision_int_"];
export type Deliveries = Schemas["Paged_Delivery_str_"];
export type Delivery = Schemas["Delivery"];
export type Demo = Schemas["Demo"];
export type Diff = Schemas["Diff"];
export type Drift = Schemas["Drift"];
export type Entity = Schemas["EntityReport"];
export type Evidence = Schemas["Evidence"];
export type ImportResult = Schemas["ImportResult"];
export type LabelCounts = Schemas["LabelCounts"];
export type LabelFile = Schemas["LabelUploadRequest"];
export type LabelSources = Schemas["LabelSources"];
export type LabelUpload = Schemas["LabelUpload"];
export type CollectionDiff = Schemas["CollectionDiff"];
export type CollectionImportResult = Schemas["CollectionImportResult"];
export type ListRow = Schemas["ListRow"];
export type Lists = Schemas["Items_ListRow_"];
export type ListValues = Schemas["Paged_ListedValue_str_"];
export type CollectionVersions = Schemas["Paged_CollectionVersion_str_"];
export type MapEntries = Schemas["Paged_MapEntry_str_"];
export type MapRow = Schemas["MapRow"];
export type Maps = Schemas["Items_MapRow_"];
export type Liveness = Schemas["Liveness"];
export type OpenTransaction = Schemas["OpenTransaction"];
export type BulkChange = Schemas["BulkChange"];
export type Matching = Schemas["Matching"];
export type Me = Schemas["Me"];
export type RuleHealth = Schemas["RuleFigures"];
export type Comparison = Schemas["ComparisonShown"];
export type Outcome = Schemas["OutcomeShown"];
export type OutcomeSpan = Schemas["OutcomeSpan"];
export type RuleNames = Schemas["Items_RuleName_"];
export type PaymentDecision = Schemas["PaymentDecision"];
export type PlantedFraud = Schemas["PlantedFraud"];
export type NewProgramToken = Schemas["NewProgramToken"];
export type ProgramToken = Schemas["ProgramToken"];
export type ProgramTokens = Schemas["Items_ProgramToken_"];
export type Progress = Schemas["Progress"];
export type ProgressPoint = Schemas["ProgressPoint"];
export type QualityTable = Schemas["QualityTable"];
export type Receivers = Schemas["Items_ReceiverShown_"];
export type RejectedRecords = Schemas["Items_Activation_"];
export type Reason = Schemas["ProblemReason"];
export type RuleChanged = Schemas["RuleChanged"];
export type RuleDetail = Schemas["RuleDetail"];
export type RuleRow = Schemas["RuleRow"];
export type Rules = Schemas["Paged_RuleRow_str_"];
export type RuleUse = Schemas["RuleUse"];
export type SampleRequest = Schemas["SampleRequest"];
export type SampleValue = Schemas["SampleValue"];
export type SavedSearches = Schemas["Items_SavedSearch_"];
export type Schema = Schemas["SchemaShown"];
export type SearchFound = Schemas["SearchFound"];
export type Snooze = Schemas["Snooze"];
export type Snoozes = Schemas["Items_Snooze_"];
export type StateName = Schemas["StateName"];
export type Subscription = Schemas["Subscription"];
export type SubscriptionRequest = Schemas["SubscriptionRequest"];
export type Subscriptions = Schemas["Items_Subscription_"];
export type Today = Schemas["TodayShown"];
export type Validation = Schemas["Validation"];
export type Version = Schemas["Version"];
export type Versions = Schemas["Paged_Version_str_"];
export type WarmUp = Schemas["WarmUp"];
export type WhatIf = Schemas["WhatIf"];
export type WhatIfStarted = Schemas["WhatIfStarted"];

/** A rule in the format of the rule log. Its numbers can be more precise than JavaScript's: see `exactJson`. */
export type RuleDocument = Record<string, unknown>;

/** The JSON of `fraud_rules.batch.whatif.result`. */
export interface WhatIfResult {
  rule: RuleDocument;
  days: string[];
  coverage: Schemas["Coverage"];
  transactions: number;
  fires: number;
  alertsPerDay: number;
  suppressed: number;
  keys: number;
  limits: [unknown, number][];
  windowsMs: [number, number][];
  hours: number[];
  busiest: [Record<string, unknown>, number][];
  overlap: { ruleId: number; name: string; alerts: number; both: number }[];
  seconds: number;
  labels?: LabelFigures | null;
  suggestions?: LimitSuggestion[];
}

/** The labelled transactions of a what-if. `byLimit` has caught frauds and false alerts, in the order of the limits;
 * `sources` counts the labels of the days. Results of earlier versions lack it. */
export interface LabelFigures {
  fraud: number;
  notFraud: number;
  outside: number;
  skipped: Record<string, number>;
  caught: number;
  falseAlerts: number;
  suppressed: number;
  missed: (number | string)[];
  byLimit: [number, number][];
  sources?: Partial<Record<LabelCounts["source"], number>>;
}

/** The limit that comes closest to a wish; null if there is none. */
export interface LimitSuggestion {
  wanted: "ALERTS_PER_DAY" | "PRECISION" | "PRECISION_OF_ALL";
  target: number;
  limit: unknown;
  fires: number | null;
  alertsPerDay: number | null;
  caught: number | null;
  falseAlerts: number | null;
}
