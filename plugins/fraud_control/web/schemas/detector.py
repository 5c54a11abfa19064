"""Schemas of the detector's state and of what-ifs."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field

from fraud_control.domain.read_models import EpochMs, ReadModel
from fraud_control.web.schemas.base import Document, Request, ResponseModel, RuleText
from fraud_control.web.schemas.derived import Derived
from fraud_rules.logs.detector_status import DetectorStatus
from fraud_rules.model.open_transaction import OpenTransaction


class VerdictShown(ResponseModel):
    """The health verdict, its reasons, and the path of its runbook. `tone` is good only if payments are evaluated.

    `since` is the start time of the verdict; null if no supervisor has recorded it.
    """

    name: str
    since: EpochMs | None
    tone: Literal["good", "warn", "bad"]
    reasons: list[str]
    runbook: str


class Liveness(ResponseModel):
    """Whether the detector evaluates payments at `at`, as `fraud_rules.monitoring.liveness` defines it.

    `since` is the end of the last batch, null if no batch has ended. `asked` is the time of the first requested start.
    `waiting` counts also the payments behind an open transaction; it is null while Kafka does not answer. `starts`
    counts the starts requested after `since`. `missing` are the topics without which the next batch waits.
    `openTransaction` is the oldest transaction that hides records of an input topic for more than ten seconds.
    """

    severity: Literal["NONE", "AMBER", "RED"]
    at: EpochMs
    since: EpochMs | None
    asked: EpochMs | None
    waiting: int | None
    starts: int
    missing: list[str]
    open_transaction: Annotated[OpenTransaction, Derived()] | None
    verdict: VerdictShown


class ProgressPoint(ResponseModel):
    """A batch: its rate, its lag, and its latency from append to readable alert, in ms."""

    time: EpochMs
    rows_per_s: float
    lag: int | None
    p50: int | None
    p99: int | None
    batch_ms: int | None


class GroupingLateness(ReadModel):
    """The lateness of a transaction for one grouping."""

    fields: list[str]
    lateness_ms: int


class LateTransaction(ReadModel):
    """A transaction that was late for some grouping."""

    transaction: dict[str, Any]
    lateness_ms: int
    groupings: list[GroupingLateness]
    append_ms: EpochMs = Field(serialization_alias="time")


class Quarantined(ResponseModel):
    """An unreadable record: its place, the reason, and its first bytes as text."""

    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    time: EpochMs
    text: str


class ReaderShown(ReadModel):
    """A reader of a topic in this server. `behind` counts offsets, 0 if every record is read; `since` is the append
    time of the first unread record. `stuck`: the position has not moved for a minute while records are unread.
    """

    name: str
    topic: str
    position: int
    end: int
    behind: int
    since_ms: EpochMs | None = Field(serialization_alias="since")
    stuck: bool
    fault: str | None


class Fault(ResponseModel):
    """A thread of this server whose work fails at the moment, and the reason."""

    thread: str
    fault: str


class AlarmShown(ReadModel):
    """An alarm from its first report to its last one, of `count` reports. `part` is what it is about, such as a rule
    or a task; empty for the whole detector. `receivers` are the connections that get its messages. `cleared`
    is the time at which its end was reported, null if no end is known. `old`: it is cleared, or its last report is
    older than a day. `source` is the address of the run that raised it, empty if unknown.
    """

    id: int
    name: str
    severity: Literal["critical", "warning"]
    part: str
    said: str
    source: str
    runbook: str
    receivers: list[str]
    first: EpochMs
    last: EpochMs
    count: int
    cleared: EpochMs | None
    old: bool


class Alarms(ResponseModel):
    """The alarms of the last 30 days, the newest message first, at most 1,000. `alarmReceivers` are the connections
    that receive alarms."""

    items: list[AlarmShown]
    alarm_receivers: list[str]


class Progress(ResponseModel):
    """The detector's panel at `at`. `status` is null before the detector's first report. Two points further apart than
    `gapMs` have an outage between them. `unreadable` counts the records that this server has skipped, by topic."""

    at: EpochMs
    status: Annotated[DetectorStatus, Derived(without=("rule_cpu",))] | None
    gap_ms: int
    points: list[ProgressPoint]
    late: list[LateTransaction]
    quarantine: list[Quarantined]
    readers: list[ReaderShown]
    faults: list[Fault]
    unreadable: dict[str, int]


class WhatIfRequest(Request):
    """The what-if of a rule over the last `days` archived days. The alert marks are its labels.

    `alertsPerDay` and `precision` ask for the suggestion of a limit.
    """

    document: Document | None = None
    text: RuleText | None = None
    days: Annotated[int, Field(ge=1, le=90)] = 7
    limits: Annotated[list[Decimal], Field(max_length=50)] | None = None
    windows: bool = True
    alerts_per_day: Annotated[float, Field(ge=0, le=1e9)] | None = None
    precision: Annotated[float, Field(ge=0, le=1)] | None = None


class ArchivedDays(ResponseModel):
    """The archived days, ascending."""

    days: list[str]


class WhatIfStarted(ResponseModel):
    """The id of a what-if that runs or waits for its turn."""

    id: str


class WhatIf(ResponseModel):
    """A what-if. `result` has the form of `fraud_rules.batch.whatif.result`, with the limit curve in `limits`."""

    id: str
    status: Literal["WAITING", "RUNNING", "DONE", "FAILED"]
    progress: float
    result: dict[str, Any] | None
    report: str | None
    said: str | None = Field(description="The reason of a failure.")
