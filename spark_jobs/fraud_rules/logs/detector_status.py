"""Decodes the detector's progress records and summarizes them for people. Pure: the caller passes the clock in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Annotated

import msgspec

from fraud_rules.model.lost_records import LostRecords
from fraud_rules.model.warm_up import BatchWarmUp

_GRACE_MS = 15_000
"""A detector counts as alive for this long after its next tick was due."""

_MOST = 2**53  # the largest integers that all JSON readers keep exact
_MOST_REJECTED = 1_000_000
_SPAN_MS = 10_000
_TRAFFIC_SPAN_MS = 300_000

Whole = Annotated[int, msgspec.Meta(ge=-_MOST, le=_MOST)]
"""A whole number in a record. No detector writes larger numbers, so a record with one comes from another program."""

Partition = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,9}$")]
RejectedRuns = list[Whole | Annotated[list[Whole], msgspec.Meta(min_length=2, max_length=2)]]


class BatchLatency(msgspec.Struct, frozen=True, rename="camel"):
    """The times of one batch in ms: its parts, and the latency from append time to readable alerts (None without
    transactions)."""

    batch_id: Whole
    rows: Whole
    pin_ms: Whole
    evaluate_ms: Whole
    write_ms: Whole
    p50_ms: Whole | None = None
    p99_ms: Whole | None = None
    max_ms: Whole | None = None

    @property
    def batch_ms(self) -> int:
        """The time that the driver spent on the batch."""
        return self.pin_ms + self.evaluate_ms + self.write_ms


class ReasonCount(msgspec.Struct, frozen=True, rename="camel"):
    """The quarantined records of one reason, and the detail of the newest of them."""

    count: Whole
    detail: str = ""


class TrafficCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Counts of the records that a detector has read since `since_ms`: transactions (`rows`), the transactions that
    were late in at least one grouping, and the records that went to quarantine, which `rows` does not include.

    `main_reason` is the most frequent reason of quarantined records, with the newest detail.
    `duplicates` counts the transactions that at least one grouping ignored because it retains their id,
    `conflicting_duplicates` those of them that differ from the retained transaction in another declared field, and
    `null_keys` the transactions that at least one grouping ignored because of a null in a grouping field.
    """

    since_ms: Whole
    rows: Whole
    late: Whole
    quarantined: Whole
    duplicates: Whole = 0
    conflicting_duplicates: Whole = 0
    null_keys: Whole = 0
    main_reason: str | None = None

    @property
    def late_share(self) -> float | None:
        """The share of the transactions that were late; None without transactions."""
        return self.late / self.rows if self.rows else None

    @property
    def quarantined_share(self) -> float | None:
        """The share of the records that went to quarantine; None without records."""
        records = self.rows + self.quarantined
        return self.quarantined / records if records else None


class ViewCounts(msgspec.Struct, frozen=True, rename="camel"):
    """How often views of key groups were not current at the start of a batch: views that caught up with the versions
    that they lacked, and views that were rebuilt."""

    catch_ups: Whole
    rebuilds: Whole


class BatchMode(msgspec.Struct, frozen=True, rename="camel"):
    """How the detector evaluates its batches: large ones with many tasks, small ones with one evaluator. `since` is the
    time of the first batch after the last change, in epoch ms."""

    large: bool
    since: Whole


class RuleCpu(msgspec.Struct, frozen=True, rename="camel"):
    """The measured CPU time that a version of a rule needs for each transaction of its grouping, in ns."""

    rule_id: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    rule_version: Whole
    cpu_ns: Annotated[float, msgspec.Meta(ge=0, le=_MOST)]


class BatchProgress(msgspec.Struct, frozen=True, rename="camel"):
    """The record of one batch in `detector-progress`. `end_offsets` are by topic and partition (as text).

    `late` counts a transaction once for each grouping in which it was late; `late_transactions` counts it once.
    `duplicates`, `conflicting_duplicates` and `null_keys` count a transaction once (see `TrafficCounts`).
    `since_start` counts the records read since this start of the detector. `attempt` is the id of the intent that the
    detector executes, if it executes one. `lost` lists the records that the detector skips from this batch on, because
    a person has accepted the loss. `retained_marks` counts the marks that alerts leave for cool-downs and resets, once
    per rule and key. `view_catch_ups` and `view_rebuilds` count the views that were not current (see `ViewCounts`), and
    `views_since_start` counts them since this start. `cpu_ns` is the estimated CPU time of the rules in force for each
    transaction. `rule_cpu` has the measured CPU time of rules, the most expensive first; a batch has it every ten
    seconds, and only the most expensive 500. `rules_rejected` has the offsets of the rejected records of the rule log,
    and the first and last offset of consecutive ones. `lag` counts the transactions that no batch has read, also those
    behind an open transaction. `quarantine_reasons` counts the quarantined records by reason.
    `mode` is how the batch was evaluated. `time_zones` is the release of the time zones that it used.
    `time` is the detector's clock right before the record is written, in epoch ms, so its append time shows how far the
    clock is off.
    """

    query_id: str
    batch_id: Whole
    end_offsets: Mapping[str, Mapping[Partition, Whole]]
    rules_end: Whole
    rules_rejected: RejectedRuns = msgspec.field(name="rulesRefused")
    rows: Whole
    quarantined: Whole
    alerts: Whole
    shadow_alerts: Whole
    late: Whole
    duplicates: Whole
    rules_in_force: Whole
    retained_events: Whole
    lag: Whole | None = None
    retained_bytes: Whole = 0
    watermark: Whole | None = None
    previous: BatchLatency | None = None
    attempt: str | None = None
    late_transactions: Whole = 0
    conflicting_duplicates: Whole = 0
    null_keys: Whole = 0
    since_start: TrafficCounts | None = None
    lost: list[LostRecords] = []
    retained_marks: int = 0
    view_catch_ups: Whole = 0
    view_rebuilds: Whole = 0
    views_since_start: ViewCounts | None = None
    warm_ups: list[BatchWarmUp] = []
    cpu_ns: Whole | None = None
    rule_cpu: list[RuleCpu] = []
    time: Whole | None = None
    tombstones: Whole = 0
    newest_append_time: Whole | None = None
    quarantine_reasons: dict[str, ReasonCount] = {}
    mode: BatchMode | None = None
    time_zones: str = ""

    def __post_init__(self) -> None:
        check_rejected(self.rules_rejected)

    def ends_of(self, topic: str) -> dict[int, int]:
        """The end offsets of one topic by partition."""
        return {int(partition): end for partition, end in self.end_offsets.get(topic, {}).items()}


decode_progress = msgspec.json.Decoder(BatchProgress).decode
encode_progress = msgspec.json.Encoder().encode


def rejected_versions(rejected: RejectedRuns) -> list[int]:
    """The offsets in `rules_rejected`."""
    return [offset for first, last in rejected_runs(rejected) for offset in range(first, last + 1)]


def check_rejected(rejected: RejectedRuns) -> None:
    """Raise ValueError if `rules_rejected` has more offsets than a detector writes."""
    if rejected and sum(max(0, last - first) for first, last in rejected_runs(rejected)) > _MOST_REJECTED:
        raise ValueError(f"rulesRefused has more than {_MOST_REJECTED} offsets")


def rejected_runs(rejected: RejectedRuns) -> list[tuple[int, int]]:
    """The first and the last offset of each run in `rules_rejected`."""
    return [(each, each) if isinstance(each, int) else (each[0], each[1]) for each in rejected]


class DetectorStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A summary of the detector's state. Rate, latency and batch time cover the last ten seconds before the last batch,
    and `recent` the last five minutes before it, or less if the given records cover less. `rule_cpu` is the newest
    report of the rules' CPU time."""

    alive: bool
    last_batch_age_ms: int
    batch_id: int
    rows_per_s: float
    lag: int | None
    latency_p50_ms: int | None
    latency_p99_ms: int | None
    batch_ms: int | None
    rules_in_force: int
    retained_events: int
    retained_bytes: int
    watermark: int | None
    recent: TrafficCounts | None = None
    since_start: TrafficCounts | None = None
    views_since_start: ViewCounts | None = None
    cpu_ns: int | None = None
    rule_cpu: list[RuleCpu] = []
    mode: BatchMode | None = None


def traffic_since(records: Sequence[tuple[int, BatchProgress]], since_ms: int) -> TrafficCounts:
    """Count the records of the batches written after `since_ms`. `records` are (append time, progress), ascending."""
    counted = [(at_ms, each) for at_ms, each in records if at_ms > since_ms]
    known_since_ms = max(since_ms, records[0][0]) if records else since_ms
    return TrafficCounts(
        known_since_ms,
        rows=sum(each.rows for _, each in counted),
        late=sum(each.late_transactions for _, each in counted),
        quarantined=sum(each.quarantined for _, each in counted),
        duplicates=sum(each.duplicates for _, each in counted),
        conflicting_duplicates=sum(each.conflicting_duplicates for _, each in counted),
        null_keys=sum(each.null_keys for _, each in counted),
        main_reason=_main_reason([each.quarantine_reasons for _, each in counted]),
    )


def _main_reason(reasons: Sequence[Mapping[str, ReasonCount]]) -> str | None:
    """The most frequent reason with its newest detail. The batches ascend."""
    counts: dict[str, int] = {}
    details: dict[str, str] = {}
    for name, found in (pair for each in reasons for pair in each.items()):
        counts[name], details[name] = counts.get(name, 0) + found.count, found.detail
    if not counts:
        return None
    main = max(counts, key=lambda name: counts[name])
    return f"{main}: {details[main]}" if details[main] else main


def longest_silence_ms(tick_ms: int) -> int:
    """The longest time between two batches of a live detector, which writes at least one every `tick_ms`."""
    return tick_ms + _GRACE_MS


def detector_status(records: Sequence[tuple[int, BatchProgress]], now_ms: int, tick_ms: int) -> DetectorStatus | None:
    """Summarize the newest (append time, progress) records, ascending. Returns None without records.

    A detector writes at least every `tick_ms`. If it has been silent much longer, it is not alive.
    """
    if not records:
        return None
    written_ms, newest = records[-1]
    recent = [(at_ms, each) for at_ms, each in records if at_ms > written_ms - _SPAN_MS]
    span_ms = min(_SPAN_MS, written_ms - records[0][0])
    rows = sum(each.rows for _, each in recent)
    timed = [each.previous for _, each in recent if each.previous is not None and each.previous.rows > 0]
    p99 = [each.p99_ms for each in timed if each.p99_ms is not None]
    return DetectorStatus(
        alive=now_ms - written_ms <= longest_silence_ms(tick_ms),
        last_batch_age_ms=max(0, now_ms - written_ms),
        batch_id=newest.batch_id,
        rows_per_s=round(rows * 1_000 / span_ms, 1) if span_ms > 0 else 0.0,
        lag=newest.lag,
        latency_p50_ms=_middle([each.p50_ms for each in timed if each.p50_ms is not None]),
        latency_p99_ms=max(p99, default=None),
        batch_ms=_middle([each.batch_ms for each in timed]),
        rules_in_force=newest.rules_in_force,
        retained_events=newest.retained_events,
        retained_bytes=newest.retained_bytes,
        watermark=newest.watermark,
        recent=traffic_since(records, written_ms - _TRAFFIC_SPAN_MS),
        since_start=newest.since_start,
        views_since_start=newest.views_since_start,
        cpu_ns=newest.cpu_ns,
        mode=newest.mode,
        rule_cpu=next((each.rule_cpu for _, each in reversed(records) if each.rule_cpu), []),
    )


def _middle(values: Sequence[int]) -> int | None:
    return round(median(values)) if values else None
