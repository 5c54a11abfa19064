import type { Alert, Approval, Liveness, Me, RuleDetail, RuleRow, Schema, Version } from "../api/types";

type SchemaField = Schema["fields"][number];

function field(name: string, type: string, members: Partial<SchemaField> = {}): SchemaField {
  const none = { nullable: false, aliases: [], label: "", description: "", unit: "", values: [] };
  return { name, type, ...none, measure: false, scale: null, minimum: null, ...members };
}

export const SCHEMA: Schema = {
  fields: [
    field("transactionId", "long", { label: "Transaction" }),
    field("payeeId", "long", { aliases: ["payerId"], label: "Payer", description: "The account that pays." }),
    field("beneficiaryId", "long", { label: "Beneficiary" }),
    field("paymentType", "string", { label: "Payment type", values: ["CSH", "CRD"] }),
    field("cardPresent", "boolean", { nullable: true, label: "Card present" }),
    field("paymentAmount", "decimal", {
      nullable: true,
      label: "Amount",
      unit: "EUR",
      measure: true,
      minimum: 0,
      scale: 2,
    }),
  ],
  entities: [],
  functions: [{ name: "hour", parameters: "t, [zone]" }],
  aggregators: ["SUM", "COUNT", "COUNT_DISTINCT"],
  operators: [">", ">=", "<"],
  actions: ["ALERT", "RESTRICT"],
  states: ["ACTIVE", "PAUSE", "SHADOW"],
  members: ["ruleId", "groupingKeyNames", "aggregateFieldName", "limit", "windowMinutes", "filter"],
  limits: {},
};

export const ANALYST: Me = {
  user: "ann",
  role: "analyst",
  roles: ["viewer", "analyst"],
  fourEyes: false,
  demo: false,
  can: [
    "read",
    "readIds",
    "draft",
    "shadow",
    "request",
    "import",
    "mark",
    "workCases",
    "snooze",
    "whatIf",
    "subscribe",
  ],
};

export const VIEWER: Me = { ...ANALYST, user: "vera", role: "viewer", can: ["read"] };

export const APPROVER: Me = {
  ...ANALYST,
  user: "ben",
  role: "approver",
  can: [...ANALYST.can, "activate", "pause", "editLive", "delete", "decide", "readAudit"],
};

export function rule(members: Partial<RuleRow> = {}): RuleRow {
  const ruleId = members.ruleId ?? 1;
  return {
    ruleId,
    name: `Rule number ${ruleId}`,
    description: "",
    severity: "high",
    owner: "payments",
    state: "ACTIVE",
    revision: 3,
    updatedAt: 1_700_000_000_000,
    updatedBy: "ann",
    source: "ui",
    published: true,
    document: {
      ruleId,
      groupingKeyNames: ["payeeId"],
      aggregatorFunctionType: "SUM",
      aggregateFieldName: "paymentAmount",
      limitOperatorType: ">",
      limit: 20,
      windowMinutes: 20,
    },
    activation: {
      logVersion: 7,
      ruleId,
      listName: null,
      mapName: null,
      status: "LIVE",
      reasons: [],
      batchId: 2,
      time: 1_700_000_000_500,
      warmUp: null,
    },
    pendingApproval: null,
    alertsLastHour: Array.from({ length: 60 }, () => 0),
    quality: { payments: 0, fraud: 0, notFraud: 0, precision: null, alertsPerDay: 0, falseAlertsPerDay: 0 },
    ...members,
  };
}

export function detail(members: Partial<RuleDetail> = {}): RuleDetail {
  const {
    yaml = "ruleId: 1\nlimit: 20\n",
    text = null,
    says = "",
    author = "ann",
    nextStates = ["PAUSE"],
    cpuNs = 40,
    groupingCpuNs = 1_500,
    measuredCpuNs = null,
    named = [],
    namedBy = [],
    ...row
  } = members;
  return { ...rule(row), yaml, text, says, author, nextStates, cpuNs, groupingCpuNs, measuredCpuNs, named, namedBy };
}

export function alert(id: string, members: Partial<Alert> = {}): Alert {
  return {
    alertId: id,
    ruleId: 1,
    ruleVersion: 7,
    violatedRule: { ...rule().document, name: "Rapid transfers" },
    key: { payeeId: 12 },
    triggeringValue: "31.5",
    triggeringEvent: { transactionId: 99, paymentAmount: 11.5 },
    windowStart: 1_700_000_000_000,
    windowEnd: 1_700_001_200_000,
    windowCount: 3,
    windowComplete: true,
    suppressed: 0,
    eventTime: 1_700_001_200_000,
    ingestionTime: 1_700_001_200_100,
    detectionTime: 1_700_001_200_300,
    shadow: false,
    appendTime: 1_700_001_200_400,
    position: `0-${id}`,
    correction: null,
    mark: null,
    snoozed: false,
    ...members,
  };
}

/** A revision. Its rule version is 100 more than its number. */
export function version(revision: number, members: Partial<Version> = {}): Version {
  const logVersion = 100 + revision;
  return {
    revision,
    state: "ACTIVE",
    document: { ...rule().document, limit: revision },
    author: "ann",
    at: 1_700_000_000_000 + revision,
    comment: "",
    source: "ui",
    logVersion,
    approved: false,
    activation: {
      logVersion,
      ruleId: 1,
      listName: null,
      mapName: null,
      status: "LIVE",
      reasons: [],
      batchId: 2,
      time: 1_700_000_000_500,
      warmUp: null,
    },
    ...members,
  };
}

/** A request about rule 1. */
export function approval(id: number, members: Partial<Approval> = {}): Approval {
  return {
    id,
    ruleId: 1,
    listName: null,
    mapName: null,
    revision: 3,
    action: "state",
    target: "ACTIVE",
    document: rule().document,
    author: "abe",
    contributors: ["abe"],
    requestedBy: "abe",
    requestedAt: 1_700_000_000_000 + id,
    comment: "",
    decision: null,
    decidedBy: null,
    decidedAt: null,
    decisionComment: null,
    basis: { "rule 1": 3 },
    ...members,
  };
}

/** The end of the last batch in the tests. */
export const SINCE = 1_795_350_418_000;

/** The liveness 90 s after the last batch. */
export function liveness(members: Partial<Liveness> = {}): Liveness {
  return {
    severity: "RED",
    at: SINCE + 90_000,
    since: SINCE,
    asked: SINCE - 3_600_000,
    waiting: 52_310,
    starts: 1,
    missing: [],
    openTransaction: null,
    verdict: {
      name: "STARTING",
      since: null,
      tone: "bad",
      reasons: ["starting for 6 s"],
      runbook: "/fraud-runbooks/starting",
    },
    ...members,
  };
}
