"""Reads the rule log and the detector's reports on its records: live or rejected."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import Reason
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import ends_of, follow, read_topic, tail_of, topic_starts
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.logs.rule_log import RuleLog, check_rule_log
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema


class RejectionReason(msgspec.Struct):
    """A reason of a rejection: the member, and the fault."""

    field: str
    message: str


class WarmUpState(StrEnum):
    """The state of a warm-up: requested, running, done, or impossible."""

    REQUESTED = "REQUESTED"
    RUNNING = "RUNNING"
    WARM = "WARM"
    REFUSED = "REFUSED"


class WarmUpReport(msgspec.Struct, rename="camel", omit_defaults=True):
    """The report on a warm-up. `progress` is the completed part of a running job. A history that is warm was added in
    batch `batch_id`, has `rows` rows, and is complete from the event time `since` on (epoch ms). `reason` is the reason
    of a rejected warm-up."""

    state: WarmUpState
    progress: float | None = None
    batch_id: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    time: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    rows: int = 0
    since: int | None = None
    reason: str = ""


class RuleReportDocument(msgspec.Struct, rename="camel", frozen=True):
    """A report on one record of the rule log, as the topic `rule-operations` has it. A record about a list, a map or a
    control has no rule id. `operation` is the rule's state, DELETE, the control, or the operation of a list
    or map, and null for a rejected record. `cpuNs` is the estimated CPU time of the rule for a transaction.
    `refusedInPin`: the pin of a batch rejected the record, and not the record or the log before it. Further reports on
    a warm-up have a shorter form."""

    rule_id: int | None
    rule_version: int
    status: Literal["LIVE", "REJECTED"]
    batch_id: int
    time: int
    operation: str | msgspec.UnsetType | None = msgspec.UNSET
    append_time: int | msgspec.UnsetType = msgspec.UNSET
    list_name: str | msgspec.UnsetType = msgspec.UNSET
    map_name: str | msgspec.UnsetType = msgspec.UNSET
    cpu_ns: int | msgspec.UnsetType = msgspec.UNSET
    warm_up: WarmUpReport | msgspec.UnsetType = msgspec.UNSET
    reasons: list[RejectionReason] | msgspec.UnsetType = msgspec.UNSET
    rejected_in_pin: bool | msgspec.UnsetType = msgspec.field(name="refusedInPin", default=msgspec.UNSET)


class RuleOperation(msgspec.Struct, rename="camel"):
    """The part of a `RuleReportDocument` that readers need. `status` is LIVE or REJECTED, `time` is in epoch ms.

    A rule that requests a warm-up gets further reports with another `warm_up`; its first report says when it is live.
    `rejected_in_pin`: the pin of a batch rejected the record, and not the record or the log before it; None if an
    earlier release wrote the report.
    """

    rule_version: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    status: str
    batch_id: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    time: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    rule_id: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    list_name: str | None = None
    map_name: str | None = None
    reasons: list[RejectionReason] = []
    rejected_in_pin: bool | None = msgspec.field(name="refusedInPin", default=None)
    warm_up: WarmUpReport | None = None

    def after(self, earlier: RuleOperation | None) -> RuleOperation:
        """This report, with the batch and the time from which an earlier report says that the rule is live."""
        if earlier is None or self.warm_up is None or earlier.rejected:
            return self
        return msgspec.structs.replace(earlier, warm_up=self.warm_up)

    @property
    def rejected(self) -> bool:
        """Whether the detector rejected the record."""
        return self.status == "REJECTED"


@dataclass(frozen=True, slots=True)
class RuleLogStatus:
    """The rule log without the rejected records, and the detector's reports by version."""

    timeline: RuleTimeline
    operations: Mapping[int, RuleOperation]

    @property
    def rejected(self) -> list[RuleOperation]:
        """The rejected records with their reasons, newest first."""
        return newest_rejected(self.operations.values())


def newest_rejected(operations: Iterable[RuleOperation]) -> list[RuleOperation]:
    """The rejected records among these reports, newest first."""
    rejected = (each for each in operations if each.rejected)
    return sorted(rejected, key=lambda each: each.rule_version, reverse=True)


decode_operation = msgspec.json.Decoder(RuleOperation).decode
"""Decodes a report."""


def read_rules(
    kafka: KafkaConnection, schema: TransactionSchema, settings: DetectorSettings, *, settled: bool = False
) -> RuleLogStatus:
    """Read the current rules. Raises BrokerUnavailable, and ConfigError for a topic that cannot be a rule log.

    With `settled`, all rules that were written before this call. Raises TransactionOpen then, see `settled_ends`.
    """
    operations = read_operations(kafka, settings.topics.rule_operations)
    rejected = {
        version: [Reason(reason.field, reason.message) for reason in report.reasons]
        for version, report in operations.items()
        if report.rejected and report.rejected_in_pin is not False
    }
    with TopicReader(kafka, settings.topics.rules) as reader:
        check_rule_log(reader)
        _, end = ends_of(reader, settled=settled)[0]
        timeline = RuleLog.of(reader, schema, settings.limits).up_to(end, rejected)
    return RuleLogStatus(timeline, operations)


def read_operations(kafka: KafkaConnection, topic: str) -> dict[int, RuleOperation]:
    """The newest report of each version. Unreadable records are skipped. Raises BrokerUnavailable."""
    read = read_topic(kafka, topic).items()
    return _by_version(_report(topic, record, partition) for partition, records in read for record in records)


def read_rejected(kafka: KafkaConnection, topic: str, newest: int = 1_000) -> list[RuleOperation]:
    """The rejected records among the last `newest` reports, newest first. Raises BrokerUnavailable.

    Unreadable records are skipped.
    """
    reports = _by_version(_report(topic, record) for record in tail_of(kafka, topic, newest))
    return newest_rejected(reports.values())


def await_operations(
    kafka: KafkaConnection, topic: str, versions: set[int], timeout_s: float
) -> dict[int, RuleOperation]:
    """Wait for the detector's reports on these versions. After `timeout_s`, return the reports so far."""
    deadline = time.monotonic() + timeout_s
    found: dict[int, RuleOperation] = {}
    starts = {topic: topic_starts(kafka, topic)}
    for received in follow(kafka, starts, goes_on=lambda: time.monotonic() < deadline and not versions <= found.keys()):
        if received is not None:
            found.update(_by_version([_report(topic, received.record, received.partition)]))
    return {version: report for version, report in found.items() if version in versions}


def _report(topic: str, record: Record, partition: int = 0) -> RuleOperation | None:
    return decode_or_skip(topic, record, decode_operation, partition)


def _by_version(reports: Iterable[RuleOperation | None]) -> dict[int, RuleOperation]:
    found: dict[int, RuleOperation] = {}
    for report in reports:
        if report is not None:
            found[report.rule_version] = report.after(found.get(report.rule_version))
    return found
