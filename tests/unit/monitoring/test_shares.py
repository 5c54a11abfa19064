"""Shares of late and quarantined records above their limits: the share, its cause, and the work of the operator."""

from __future__ import annotations

from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.logs.detector_status import BatchProgress, ReasonCount, TrafficCounts, traffic_since
from fraud_rules.monitoring.shares import ShareVerdict, high_shares

UNIT = "eventTime is 1970-01-20T16:13:20.000Z; in seconds it is 2023-11-14T22:13:20Z"


def batch(batch_id: int, rows: int, reasons: dict[str, ReasonCount]) -> BatchProgress:
    quarantined = sum(each.count for each in reasons.values())
    return BatchProgress(
        "q", batch_id, {}, 0, [], rows, quarantined, 0, 0, 0, 0, 1, 0, quarantine_reasons=reasons
    )  # fmt: skip


def test_the_most_frequent_reason_has_its_newest_detail() -> None:
    first = batch(1, 0, {"past_event_time": ReasonCount(12, "old"), "no_json": ReasonCount(15, "cut")})
    second = batch(2, 10, {"past_event_time": ReasonCount(13, UNIT)})
    (found,) = high_shares(traffic_since([(1_000, first), (2_000, second)], 0), HealthSettings())
    assert found.verdict is ShareVerdict.MOSTLY_QUARANTINED
    assert found.share == f"40 of the last 50 records (80%) are in quarantine, most often: past_event_time: {UNIT}"
    assert "fraud quarantine replay" in found.remedy


def test_a_share_of_few_records_does_not_count() -> None:
    counts = {None: [], TrafficCounts(0, 0, 0, 19): [], TrafficCounts(0, 20, 4, 0): [ShareVerdict.MOSTLY_LATE]}
    for traffic, verdicts in counts.items():
        assert [each.verdict for each in high_shares(traffic, HealthSettings())] == verdicts
