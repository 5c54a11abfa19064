"""Assesses the facts of a checkpoint and of the detector's state. Pure: `hooks.checkpoint` reads files and topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from fraud_ops.verdicts.verdict import Health
from fraud_rules.logs.detector_status import TrafficCounts

__all__ = [
    "HISTORY_AT_RISK",
    "CheckpointFacts",
    "CheckpointLimits",
    "Finding",
    "Grade",
    "StateFacts",
    "TopicFacts",
    "findings",
    "overall",
    "table",
]

HISTORY_AT_RISK = "HISTORY_AT_RISK"
"""The alarm for unread records that retention will soon remove."""

_MS_A_DAY = 86_400_000
_STATE_TOPIC = "state topic"

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition."""


class Grade(IntEnum):
    """The severity of a finding."""

    OK = 0
    WARN = 1
    BAD = 2


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """The facts of a checkpoint's files. If the checkpoint is unreadable, `fault` is the reason and the rest is empty.

    `next_offsets` are the start offsets of the batch after the last finished one. `commit_age_ms` is the age of the
    last finished batch's file. `damaged` names files that do not match their checksums. `absent` means that the folder
    has no manifest.
    """

    root: str
    fault: str | None = None
    foreign: bool = False
    absent: bool = False
    planned: int | None = None
    committed: int | None = None
    commit_age_ms: int | None = None
    damaged: Sequence[str] = ()
    checked_files: int = 0
    size_bytes: int = 0
    files: int = 0
    free_bytes: int = 0
    next_offsets: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The facts of the source topics: the first retained offset and the end of each partition.

    `unread_ages_ms` are the ages of the oldest records that no finished batch has read. `retentions_ms` are the
    broker's settings, None for unlimited. If Kafka does not answer, `fault` is the reason and the rest is empty.
    """

    starts: Offsets = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)
    unread_ages_ms: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    retentions_ms: Mapping[str, int | None] = field(default_factory=dict)
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class StateFacts:
    """The facts of the topic `detector-state`.

    `fault` says why the topic does not hold the detector's state anymore, `foreign` that the state has another number
    of key groups. `unsuitable` are wrong settings of the topic. `batch_id` is the last batch with state, None before
    the first one.
    """

    fault: str | None = None
    foreign: bool = False
    unsuitable: Sequence[str] = ()
    batch_id: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointLimits:
    """The limits of the findings. Rates refer to the recently read records (`TrafficCounts`)."""

    commit_age_ms: int = 60_000
    lag: int = 100_000
    size_bytes: int = 50 * 2**30
    growth: float = 2.0
    free_bytes: int = 5 * 2**30
    free_bytes_bad: int = 2**30
    late_rate: float = 0.05
    quarantine_rate: float = 0.05
    retention_used: float = 0.5


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. A BAD finding leads to the verdict `health`. Any other finding can raise `alarm`."""

    check: str
    value: str
    grade: Grade
    health: Health = Health.CHECKPOINT_DAMAGED
    alarm: str | None = None


def findings(
    facts: CheckpointFacts,
    topics: TopicFacts,
    traffic: TrafficCounts | None,
    limits: CheckpointLimits,
    size_before: int | None = None,
    *,
    starting: bool = False,
    state: StateFacts | None = None,
) -> list[Finding]:
    """All findings, in the order of the report.

    `size_before` is the size at the previous check. `starting` means that the detector has not finished a batch since
    its start. It creates the checkpoint only after a successful start. `state` is None if Kafka does not answer.
    """
    of_state = [] if state is None else [_state(state)]
    return [
        *_of_files(facts, limits, size_before, starting=starting),
        *of_state,
        *_of_kafka(facts, topics, traffic, limits),
    ]


def _of_files(
    facts: CheckpointFacts, limits: CheckpointLimits, size_before: int | None, *, starting: bool
) -> Iterable[Finding]:
    if facts.absent and starting:
        return [
            Finding("readable", f"not there yet: the detector is starting, and then creates {facts.root}", Grade.OK)
        ]
    if facts.fault is not None:
        health = Health.CHECKPOINT_FOREIGN if facts.foreign else Health.CHECKPOINT_DAMAGED
        return [Finding("readable", facts.fault, Grade.BAD, health)]
    return [
        Finding("readable", facts.root, Grade.OK),
        _batches(facts),
        _commit_age(facts, limits),
        _list("checksums", facts.damaged, f"{facts.checked_files} files agree"),
        _size(facts, limits, size_before),
        _free(facts, limits),
    ]


def _of_kafka(
    facts: CheckpointFacts, topics: TopicFacts, traffic: TrafficCounts | None, limits: CheckpointLimits
) -> Iterable[Finding]:
    if topics.fault is not None:
        return [Finding("source offsets", topics.fault, Grade.BAD, Health.BROKER_DOWN)]
    if facts.fault is not None:
        return []
    return [_lag(facts, topics, limits), _retention(facts, topics, limits), *_rates(traffic, limits)]


def _state(state: StateFacts) -> Finding:
    """Whether the topic holds the state of the last batch, with settings under which Kafka keeps it."""
    if state.fault is not None:
        health = Health.CHECKPOINT_FOREIGN if state.foreign else Health.CHECKPOINT_DAMAGED
        return Finding(_STATE_TOPIC, state.fault, Grade.BAD, health)
    if state.unsuitable:
        return Finding(_STATE_TOPIC, "; ".join(state.unsuitable), Grade.BAD, Health.TOPIC_UNSUITABLE)
    written = "no state yet" if state.batch_id is None else f"holds the state of batch {state.batch_id}"
    return Finding(_STATE_TOPIC, written, Grade.OK)


def overall(found: Iterable[Finding]) -> tuple[Grade, Health]:
    """The worst grade, and the verdict of its finding."""
    worst = max(found, key=lambda finding: finding.grade)
    return worst.grade, worst.health if worst.grade is Grade.BAD else Health.HEALTHY


def table(found: Sequence[Finding]) -> str:
    """The report as a Markdown table."""
    rows = [f"| {each.check} | {each.value} | {each.grade.name} |" for each in found]
    return "\n".join(["| check | found | |", "| --- | --- | --- |", *rows])


def document(found: Sequence[Finding]) -> dict[str, Any]:
    """The report as the `extra` of an asset event."""
    return {each.check: {"found": each.value, "grade": each.grade.name} for each in found}


def _batches(facts: CheckpointFacts) -> Finding:
    value = f"planned {facts.planned}, finished {facts.committed}, no gaps"
    return Finding("batches", value, Grade.OK)


def _commit_age(facts: CheckpointFacts, limits: CheckpointLimits) -> Finding:
    if facts.commit_age_ms is None:
        return Finding("last commit", "none yet", Grade.WARN, Health.STALLED)
    grade = Grade.WARN if facts.commit_age_ms > limits.commit_age_ms else Grade.OK
    return Finding("last commit", f"{facts.commit_age_ms / 1_000:.0f} s ago", grade, Health.STALLED)


def _list(check: str, wrong: Sequence[str], right: str) -> Finding:
    if not wrong:
        return Finding(check, right, Grade.OK)
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return Finding(check, ", ".join(wrong[:3]) + more, Grade.BAD)


def _size(facts: CheckpointFacts, limits: CheckpointLimits, before: int | None) -> Finding:
    grown = before is not None and before > 2**20 and facts.size_bytes > before * limits.growth
    value = f"{_mib(facts.size_bytes)} in {facts.files} files" + (f", {_mib(before)} before" if before else "")
    return Finding("size", value, Grade.WARN if grown or facts.size_bytes > limits.size_bytes else Grade.OK)


def _free(facts: CheckpointFacts, limits: CheckpointLimits) -> Finding:
    grade = Grade.OK if facts.free_bytes >= limits.free_bytes else Grade.WARN
    if facts.free_bytes < limits.free_bytes_bad:
        grade = Grade.BAD
    return Finding("free disk", _mib(facts.free_bytes), grade, Health.DISK_FULL)


def _lag(facts: CheckpointFacts, topics: TopicFacts, limits: CheckpointLimits) -> Finding:
    lag = sum(
        max(0, end - facts.next_offsets.get(topic, {}).get(partition, 0))
        for topic, ends in topics.ends.items()
        for partition, end in ends.items()
    )
    return Finding("lag", f"{lag:,} offsets", Grade.WARN if lag > limits.lag else Grade.OK, Health.LAGGING)


def _retention(facts: CheckpointFacts, topics: TopicFacts, limits: CheckpointLimits) -> Finding:
    """Whether Kafka still has the first records of the next batch, and for how long. A topic that was recreated or
    emptied has lost them."""
    gone = [
        f"{topic}-{partition} begins at {start}, but offset {needed} is needed"
        for topic, starts in topics.starts.items()
        for partition, start in starts.items()
        if (needed := facts.next_offsets.get(topic, {}).get(partition)) is not None and start > needed
    ]
    shrunk = [
        f"{topic}-{partition} ends at {end}, before offset {needed}"
        for topic, ends in topics.ends.items()
        for partition, end in ends.items()
        if (needed := facts.next_offsets.get(topic, {}).get(partition)) is not None and end < needed
    ]
    if gone or shrunk:
        return _list("source offsets", [*gone, *shrunk], "")
    expiring = [
        f"{topic}-{partition}: the oldest unread record is {_days(age_ms)} old; retention is {_days(kept_ms)}"
        for topic, ages_ms in topics.unread_ages_ms.items()
        for partition, age_ms in ages_ms.items()
        if (kept_ms := topics.retentions_ms.get(topic)) is not None and age_ms > kept_ms * limits.retention_used
    ]
    if expiring:
        return Finding("source offsets", "; ".join(expiring), Grade.WARN, alarm=HISTORY_AT_RISK)
    return Finding("source offsets", "all retained", Grade.OK)


def _rates(traffic: TrafficCounts | None, limits: CheckpointLimits) -> Iterable[Finding]:
    """The shares of late and quarantined records. Far above these limits, the detector is BLIND."""
    if traffic is None:
        return
    for check, count, total, limit in (
        ("late", traffic.late, traffic.rows, limits.late_rate),
        ("quarantined", traffic.quarantined, traffic.rows + traffic.quarantined, limits.quarantine_rate),
    ):
        rate = count / max(1, total)
        grade = Grade.WARN if rate > limit and count >= 10 else Grade.OK
        yield Finding(check, f"{rate:.1%} of the last {total:,} records", grade, Health.BLIND)


def _days(span_ms: int) -> str:
    return f"{span_ms / _MS_A_DAY:.1f} days"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
