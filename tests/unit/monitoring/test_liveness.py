"""Liveness: the start of an outage, the waiting payments, and the severity."""

from __future__ import annotations

import pytest

from fraud_rules.deploy.intent import Intent, IntentKind, IntentLog, IntentRecord
from fraud_rules.deploy.release import Release
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.model.open_transaction import OpenTransaction
from fraud_rules.monitoring.liveness import Liveness, PartitionEnds, Severity, liveness, starts_since
from tests.support.records.progress import batch_progress

TICK_MS = 10_000
SINCE_MS = 1_795_350_418_000  # 2026-11-22 12:26:58 UTC
TOPIC = "transactions"


def progress(**ends: int) -> BatchProgress:
    read = {TOPIC: {each[1:]: end for each, end in ends.items()}}
    return batch_progress(4, read, rules_end=3, rows=9, rules_in_force=7, retained_events=9, lag=126)


def liveness_after(age_s: float, waiting: int, *, overdue: bool | None = None, starts: int = 0) -> Liveness:
    """The liveness `age_s` after the last batch. By default waiting payments are overdue."""
    late = waiting if overdue is None else int(overdue)
    ends = {0: PartitionEnds(0, 100 + waiting, 100 + late, 100 + waiting)}
    now_ms = SINCE_MS + int(age_s * 1_000)
    return liveness((SINCE_MS, progress(p0=100)), ends, TOPIC, now_ms, TICK_MS, starts=starts)


@pytest.mark.parametrize(
    ("age_s", "waiting", "starts", "severity"),
    [
        (1, 0, 0, Severity.NONE),
        (1, 52_310, 0, Severity.NONE),  # behind, but at work
        (10, 52_310, 0, Severity.NONE),
        (10.1, 52_310, 0, Severity.AMBER),
        (60, 52_310, 1, Severity.AMBER),
        (60.1, 52_310, 1, Severity.RED),
        (12, 52_310, 2, Severity.RED),
        (9, 52_310, 2, Severity.NONE),
        (25, 0, 0, Severity.NONE),  # idle: a batch comes at every tick
        (25.1, 0, 0, Severity.AMBER),
        (60.1, 0, 0, Severity.RED),
        (26, 0, 2, Severity.RED),
    ],
)
def test_severity_grows_with_the_outage(age_s: float, waiting: int, starts: int, severity: Severity) -> None:
    assert liveness_after(age_s, waiting, starts=starts).severity is severity


def test_a_payment_that_just_arrived_at_an_idle_detector_is_no_outage() -> None:
    assert liveness_after(10.3, 1, overdue=False).severity is Severity.NONE
    assert liveness_after(10.3, 1, overdue=True).severity is Severity.AMBER


def test_waiting_is_what_the_topic_holds_beyond_the_last_batch_and_not_its_lag() -> None:
    ends = {0: PartitionEnds(0, 150, 150, 150), 1: PartitionEnds(40, 60, 60, 60), 2: PartitionEnds(5, 12, 12, 12)}
    seen = liveness((SINCE_MS, progress(p0=100, p1=20)), ends, TOPIC, SINCE_MS, TICK_MS)
    # Of partition 1 retention has removed some, partition 2 is new.
    assert seen.waiting == 50 + 20 + 7


def test_a_missing_answer_of_kafka_is_unknown() -> None:
    seen = liveness((SINCE_MS, progress(p0=100)), None, TOPIC, SINCE_MS + 61_000, TICK_MS)
    assert (seen.waiting, seen.severity) == (None, Severity.RED)
    assert seen.sentence() == "No payment evaluated since 12:26:58 UTC. Number of waiting payments unknown."


def test_a_detector_that_never_evaluated_counts_from_its_first_start() -> None:
    ends = {0: PartitionEnds(3, 10, 10, 10)}

    def never(asked_ms: int | None, starts: int) -> Liveness:
        return liveness(None, ends, TOPIC, SINCE_MS + 50_000, TICK_MS, starts=starts, asked_ms=asked_ms)

    assert never(None, 0).severity is Severity.AMBER
    assert never(SINCE_MS, 1).severity is Severity.AMBER
    assert never(SINCE_MS, 2).severity is Severity.RED
    assert never(SINCE_MS - 20_000, 1).severity is Severity.RED
    assert never(None, 0).sentence() == "No payment evaluated yet. 7 payments waiting."


@pytest.mark.parametrize(
    ("age_s", "waiting", "sentence"),
    [
        (70, 52_310, "No payment evaluated since 12:26:58 UTC. 52,310 payments waiting."),
        (70, 1, "No payment evaluated since 12:26:58 UTC. 1 payment waiting."),
        (70, 0, "No payment evaluated since 12:26:58 UTC. No payments waiting."),
        (90_000, 0, "No payment evaluated since 2026-11-22 12:26:58 UTC. No payments waiting."),
    ],
)
def test_the_sentence(age_s: float, waiting: int, sentence: str) -> None:
    assert liveness_after(age_s, waiting).sentence() == sentence


@pytest.mark.parametrize(
    ("ends", "is_hidden"),
    [
        (PartitionEnds(0, 1_105, 1_105, 1_105), False),
        (PartitionEnds(0, 1_105, 5, 5), False),  # its first record is younger than AMBER_MS
        (PartitionEnds(0, 1_105, 6, 5), True),
        (PartitionEnds(0, 1_105, 1_105, 5), True),
    ],
)
def test_only_an_old_transaction_hides_payments(ends: PartitionEnds, *, is_hidden: bool) -> None:
    assert ends.is_hidden is is_hidden


@pytest.mark.parametrize(("age_s", "severity"), [(11, Severity.AMBER), (60, Severity.AMBER), (61, Severity.RED)])
def test_an_open_transaction_is_an_outage_although_batches_end(age_s: int, severity: Severity) -> None:
    hidden = OpenTransaction(TOPIC, 0, 100, SINCE_MS - age_s * 1_000, 4711, "gateway-3")
    ends = {0: PartitionEnds(0, 1_101, 1_101, 100)}
    seen = liveness((SINCE_MS, progress(p0=100)), ends, TOPIC, SINCE_MS, TICK_MS, open_transaction=hidden)
    assert (seen.severity, seen.waiting) == (severity, 1_001)
    assert seen.sentence() == (
        f"A transaction of producer 4711 (gateway-3) has been open for {age_s} s and hides the records of "
        "transactions-0 from offset 100 on (docs/runbooks/hung-producer.md). 1,001 payments waiting."
    )


def test_a_missing_topic_is_an_outage_although_the_last_batch_is_recent() -> None:
    ends = {0: PartitionEnds(0, 100, 100, 100)}
    seen = liveness((SINCE_MS, progress(p0=100)), ends, TOPIC, SINCE_MS, TICK_MS, missing=("rules",))
    assert seen.severity is Severity.AMBER
    assert seen.sentence() == (
        "The next batch waits for missing topics: rules (fraud kafka topics apply). No payments waiting."
    )


def test_starts_after_the_last_batch_count() -> None:
    def asked(epoch: int, release: Release | None) -> IntentRecord:
        kind = IntentKind.DRAIN if release is None else IntentKind.RUN
        intent = Intent("d", kind, f"a{epoch}", epoch - 1, "because", "me", "test", 0, release)
        return IntentRecord(epoch, epoch * 1_000, intent, void=False)

    run = Release(code="c0de", settings="", schema="", bootstrap="kafka:9092")
    log = IntentLog("d", [asked(0, run), asked(1, run), asked(2, None), asked(3, run)])
    assert [starts_since(log, since_ms) for since_ms in (None, 0, 1_000, 3_000)] == [3, 2, 1, 0]
