"""Assesses the facts of a checkpoint. Pure: `hooks.checkpoint` reads them from Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from fraud_ops.verdicts.verdict import Health
from fraud_rules.logs.detector_status import TrafficCounts
from fraud_rules.model.day import DAY_MS

HISTORY_AT_RISK = "HISTORY_AT_RISK"
"""The alarm for unread records that retention will soon remove."""

DRILL_OVERDUE = "DRILL_OVERDUE"
"""The alarm if no restore drill has succeeded for longer than its schedule allows."""

_MS_AN_HOUR = 3_600_000

OPEN_MS = 30_000
"""How long a transaction may stay open."""

_MARKER_AGE_MS = 60_000
_LAG = 100_000
_SIZE_BYTES = 50 * 2**30
_GROWTH = 2.0
_DRILL_AGE_MS = 26 * _MS_AN_HOUR
_RATE = 0.05
"""The shares of late and of quarantined records, of the recently read records (`TrafficCounts`)."""

_RETENTION_USED = 0.5
_LIVE_SHARE = 1 / 3
"""The least share of the state log that a restore needs. Below it, Kafka's log cleaner is behind or has ended."""

_LEAST_GROWTH_BYTES = 100 * 2**20
"""Growth of a smaller state is no finding: compaction has not begun yet."""

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition."""


class Grade(IntEnum):
    """The severity of a finding."""

    OK = 0
    WARN = 1
    BAD = 2


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """The facts of the newest marker, and of the topics that it names.

    `fault` is the reason why a start would be refused; then the facts of the marker are empty. `foreign` means that the
    settings or the inputs do not fit. `stuck` are open transactions that hide markers, progress or state. `batch_id` is
    the last written batch, None before the first start. `age_ms` is the age of the marker. `lost` are records that the
    next batch should read, but that Kafka no longer has. `next_offsets` are the start offsets of the next batch.

    `unsuitable` are wrong settings of `detector-state` and `detector-marker`. `short_of_replicas` are partitions to
    which Kafka writes nothing. `size_bytes` is the size of one copy of `detector-state`, None if it is unknown.
    `now_ms` is the broker's time.
    """

    fault: str | None = None
    foreign: bool = False
    stuck: Sequence[str] = ()
    batch_id: int | None = None
    progress_batch_id: int | None = None
    age_ms: int | None = None
    lost: Sequence[str] = ()
    next_offsets: Offsets = field(default_factory=dict)
    unsuitable: Sequence[str] = ()
    short_of_replicas: Sequence[str] = ()
    size_bytes: int | None = None
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The facts of the input topics: the end of each partition.

    `unread_ages_ms` are the ages of the oldest records that no written batch has read. `retentions_ms` are the
    broker's settings, None for unlimited.
    """

    ends: Offsets = field(default_factory=dict)
    unread_ages_ms: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    retentions_ms: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LastDrill:
    """The newest restore drill that has restored the state, see `stream.drill.DrillReport`."""

    batch_id: int
    marker_ms: int
    took_ms: int
    digest: str
    orphans: int
    live_bytes: int

    @staticmethod
    def of(report: Mapping[str, Any]) -> LastDrill:
        """The drill of a report's document."""
        members = ("batchId", "markerMs", "tookMs", "digest", "orphans", "liveBytes")
        return LastDrill(*(report[member] for member in members))


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. A BAD finding leads to the verdict `health`. Any other finding can raise `alarm`."""

    check: str
    value: str
    grade: Grade
    health: Health = Health.CHECKPOINT_DAMAGED
    alarm: str | None = None


def unreachable(fault: str) -> list[Finding]:
    """The finding if Kafka does not answer. `fault` is the reason."""
    return [Finding("broker", fault, Grade.BAD, Health.BROKER_DOWN)]


def findings(
    facts: CheckpointFacts,
    topics: TopicFacts,
    traffic: TrafficCounts | None,
    size_before: int | None = None,
    drill: LastDrill | None = None,
) -> list[Finding]:
    """All findings, in the order of the report. `size_before` is the size of the state at the previous check, `drill`
    the newest drill that has restored the state.

    A stuck transaction comes first: until it ends, records that are missing may only be hidden.
    """
    stuck = _list("open transactions", facts.stuck, "none that hides a record", Health.HUNG_PRODUCER)
    if facts.fault is not None:
        health = Health.CHECKPOINT_FOREIGN if facts.foreign else Health.CHECKPOINT_DAMAGED
        return [stuck, Finding("marker", facts.fault, Grade.BAD, health), *_rates(traffic)]
    return [
        stuck,
        _marker(facts),
        _age(facts),
        _list("state topic", facts.unsuitable, "holds the state", Health.TOPIC_UNSUITABLE),
        _size(facts, size_before),
        _live_share(facts, drill),
        _drill(facts, drill),
        _list("replicas", facts.short_of_replicas, "enough in sync", Health.BROKER_DOWN),
        _lag(facts, topics),
        _inputs(facts, topics),
        *_rates(traffic),
    ]


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


def _marker(facts: CheckpointFacts) -> Finding:
    if facts.batch_id is None:
        return Finding("marker", "none yet: the first start writes it", Grade.OK)
    progress = "none" if facts.progress_batch_id is None else facts.progress_batch_id
    return Finding("marker", f"batch {facts.batch_id}, last progress {progress}", Grade.OK)


def _age(facts: CheckpointFacts) -> Finding:
    if facts.age_ms is None:
        return Finding("last batch", "none yet", Grade.OK)
    grade = Grade.WARN if facts.age_ms > _MARKER_AGE_MS else Grade.OK
    return Finding("last batch", f"{facts.age_ms / 1_000:.0f} s ago", grade, Health.STALLED)


def _list(check: str, wrong: Sequence[str], right: str, health: Health) -> Finding:
    if not wrong:
        return Finding(check, right, Grade.OK)
    more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return Finding(check, "; ".join(wrong[:3]) + more, Grade.BAD, health)


def _size(facts: CheckpointFacts, before: int | None) -> Finding:
    size = facts.size_bytes
    if size is None:
        return Finding("state size", "unknown: Kafka does not report it to this client", Grade.OK)
    grown = before is not None and before >= _LEAST_GROWTH_BYTES and size > before * _GROWTH
    value = _mib(size) + (f", {_mib(before)} before" if before else "")
    return Finding("state size", value, Grade.WARN if grown or size > _SIZE_BYTES else Grade.OK)


def _live_share(facts: CheckpointFacts, drill: LastDrill | None) -> Finding:
    """The part of the state log that a restore needs. The rest are records that Kafka has not compacted away yet."""
    size = facts.size_bytes
    if size is None or drill is None:
        return Finding("live share", "unknown without a drill and a size", Grade.OK)
    is_small = drill.live_bytes < size * _LIVE_SHARE and size >= _LEAST_GROWTH_BYTES
    value = f"{_mib(drill.live_bytes)} of {_mib(size)}, {drill.orphans} orphans"
    return Finding("live share", value, Grade.WARN if is_small else Grade.OK)


def _drill(facts: CheckpointFacts, drill: LastDrill | None) -> Finding:
    if drill is None:
        grade = Grade.OK if facts.batch_id is None else Grade.WARN
        return Finding("restore drill", "none yet (the DAG fraud_checkpoint_drill)", grade)
    age_ms = max(0, facts.now_ms - drill.marker_ms)
    value = (
        f"batch {drill.batch_id} {age_ms / _MS_AN_HOUR:.1f} hours ago, in {drill.took_ms / 1_000:.1f} s, "
        f"digest {drill.digest[:16]}"
    )
    if age_ms > _DRILL_AGE_MS:
        return Finding("restore drill", value, Grade.WARN, alarm=DRILL_OVERDUE)
    return Finding("restore drill", value, Grade.OK)


def _lag(facts: CheckpointFacts, topics: TopicFacts) -> Finding:
    lag = sum(
        max(0, end - facts.next_offsets.get(topic, {}).get(partition, 0))
        for topic, ends in topics.ends.items()
        for partition, end in ends.items()
    )
    return Finding("lag", f"{lag:,} offsets", Grade.WARN if lag > _LAG else Grade.OK, Health.LAGGING)


def _inputs(facts: CheckpointFacts, topics: TopicFacts) -> Finding:
    """Whether Kafka still has the first records of the next batch, and for how long."""
    if facts.lost:
        return _list("input offsets", facts.lost, "", Health.OFFSETS_LOST)
    expiring = [
        f"{topic}-{partition}: the oldest unread record is {_days(age_ms)} old; retention is {_days(kept_ms)}"
        for topic, ages_ms in topics.unread_ages_ms.items()
        for partition, age_ms in ages_ms.items()
        if (kept_ms := topics.retentions_ms.get(topic)) is not None and age_ms > kept_ms * _RETENTION_USED
    ]
    if expiring:
        return Finding("input offsets", "; ".join(expiring), Grade.WARN, alarm=HISTORY_AT_RISK)
    return Finding("input offsets", "all retained", Grade.OK)


def _rates(traffic: TrafficCounts | None) -> Iterable[Finding]:
    """The shares of late and quarantined records. Far above the limit, they are verdicts of the detector."""
    if traffic is None:
        return
    for health, check, count, total in (
        (Health.MOSTLY_LATE, "late", traffic.late, traffic.rows),
        (Health.MOSTLY_QUARANTINED, "quarantined", traffic.quarantined, traffic.rows + traffic.quarantined),
    ):
        rate = count / max(1, total)
        grade = Grade.WARN if rate > _RATE and count >= 10 else Grade.OK
        yield Finding(check, f"{rate:.1%} of the last {total:,} records", grade, health)


def _days(span_ms: int) -> str:
    return f"{span_ms / DAY_MS:.1f} days"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
