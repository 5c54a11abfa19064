"""The detector status that follows from progress records."""

from __future__ import annotations

import msgspec
import pytest

from fraud_rules.logs.detector_status import (
    BatchLatency,
    BatchProgress,
    RuleCpu,
    TrafficCounts,
    decode_progress,
    detector_status,
    rejected_versions,
)
from tests.support.records.progress import batch_progress

TICK_MS = 10_000


def progress(batch_id: int, rows: int = 100, p50_ms: int | None = 200) -> BatchProgress:
    before = BatchLatency(batch_id - 1, rows, 5, 150, 20, p50_ms, None if p50_ms is None else 2 * p50_ms)
    members = {"rules_end": 3, "rows": rows, "rules_in_force": 7, "retained_events": 9, "lag": 4, "previous": before}
    return batch_progress(batch_id, {"transactions": {"0": 5, "1": 7}}, **members)


def test_nothing_reported_is_no_status() -> None:
    assert detector_status([], 1_000, TICK_MS) is None


@pytest.mark.parametrize(("age_ms", "alive"), [(0, True), (25_000, True), (25_001, False)])
def test_a_detector_that_is_silent_long_after_its_tick_is_not_alive(age_ms: int, alive: bool) -> None:
    status = detector_status([(1_000, progress(1))], 1_000 + age_ms, TICK_MS)
    assert status is not None
    assert (status.alive, status.last_batch_age_ms) == (alive, age_ms)


def test_figures_are_of_the_last_ten_seconds_before_the_last_batch() -> None:
    records = [(0, progress(0, rows=50_000)), *((30_000 + 500 * each, progress(1 + each)) for each in range(20))]
    status = detector_status(records, 40_000, TICK_MS)
    assert status is not None
    assert status.batch_id == 20
    assert status.rows_per_s == 200
    assert (status.latency_p50_ms, status.latency_p99_ms, status.batch_ms) == (200, 400, 175)
    assert (status.rules_in_force, status.retained_events, status.lag) == (7, 9, 4)


def test_idle_batches_have_no_latency() -> None:
    status = detector_status(
        [(0, progress(0, rows=0, p50_ms=None)), (10_000, progress(1, rows=0, p50_ms=None))], 10_000, TICK_MS
    )
    assert status is not None
    assert (status.rows_per_s, status.latency_p50_ms, status.batch_ms) == (0.0, None, None)


def test_shares_are_of_the_last_five_minutes_before_the_last_batch() -> None:
    late = msgspec.structs.replace(progress(1), late=90, late_transactions=46, quarantined=100)
    total = TrafficCounts(500, rows=900, late=46, quarantined=100)
    newest = msgspec.structs.replace(progress(2), since_start=total)
    status = detector_status([(0, late), (200_000, late), (400_000, newest)], 400_000, TICK_MS)
    assert status is not None
    assert status.recent == TrafficCounts(100_000, rows=200, late=46, quarantined=100)
    assert (status.recent.late_share, status.recent.quarantined_share) == (0.23, 1 / 3)
    assert status.since_start == total


def test_no_traffic_has_no_shares() -> None:
    assert TrafficCounts(0, 0, 0, 0).late_share is None
    assert TrafficCounts(0, 0, 0, 3).quarantined_share == 1.0


def record(refused: str) -> bytes:
    """A record as the detector writes it."""
    return (
        b'{"queryId":"q","batchId":3,"endOffsets":{"transactions":{"0":5,"1":7}},"rulesEnd":2,"rulesRefused":%b,"rows":4,'
        b'"quarantined":0,"tombstones":0,"alerts":1,"shadowAlerts":0,"late":0,"duplicates":0,"lag":null,"rulesInForce":1,'
        b'"retainedEvents":4,"retainedBytes":100,"watermark":null,"newestAppendTime":9,"previous":null}'
    ) % refused.encode()


def test_a_record_is_read_as_the_detector_writes_it() -> None:
    read = decode_progress(record("[1]"))
    assert read.ends_of("transactions") == {0: 5, 1: 7}
    assert read.ends_of("rules") == {}
    assert (read.rules_end, rejected_versions(read.rules_rejected), read.lag, read.previous) == (2, [1], None, None)


@pytest.mark.parametrize(
    ("refused", "versions"), [("[]", []), ("[[3,5],9,[11,12]]", [3, 4, 5, 9, 11, 12]), ("[[5,3]]", [])]
)
def test_consecutive_refused_records_are_a_range(refused: str, versions: list[int]) -> None:
    assert rejected_versions(decode_progress(record(refused)).rules_rejected) == versions


@pytest.mark.parametrize("refused", ["[[1,9007199254740992]]", "[[1]]", "[[1,2,3]]", '["1-2"]'])
def test_a_range_that_no_detector_writes_is_refused(refused: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_progress(record(refused))


def test_the_newest_report_of_measured_rules_counts() -> None:
    """Most batches have no report."""
    costs = [RuleCpu(3, 12, 45.5), RuleCpu(1, 7, 20.0)]
    records = [
        (0, msgspec.structs.replace(progress(1), rule_cpu=costs[1:])),
        (1, msgspec.structs.replace(progress(2), rule_cpu=costs)),
        (2, msgspec.structs.replace(progress(3), cpu_ns=2_440)),
    ]
    status = detector_status([(at, decode_progress(msgspec.json.encode(each))) for at, each in records], 5, TICK_MS)
    assert status is not None
    assert (status.cpu_ns, status.rule_cpu) == (2_440, costs)
