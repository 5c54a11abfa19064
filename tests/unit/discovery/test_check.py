"""`fraud kafka topics check`: each fault of a topic is in the report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_rules.cli.display.sample_report import print_report
from fraud_rules.discovery.check import SampleReport, report_on
from fraud_rules.discovery.sample import SampleRecord
from fraud_rules.discovery.understanding import decode_sample
from fraud_rules.model.schema import TransactionSchema

T_MS = 1_764_000_000_000
HOUR_MS = 3_600_000
SCHEMA = TransactionSchema.parse(
    {
        "fields": [
            {"name": "transactionId", "type": "string"},
            {"name": "eventTime", "type": "timestamp"},
            {"name": "amount", "type": "decimal", "precision": 9, "scale": 2, "nullable": True},
            {"name": "kind", "type": "string", "nullable": True},
            {"name": "isNew", "type": "boolean", "nullable": True},
        ]
    }
)


def report(*records: tuple[dict[str, Any] | None, int, int]) -> SampleReport:
    """The report on (members, append time, partition)."""
    sample = [
        SampleRecord(b"{" if members is None else json.dumps(members).encode(), append_ms, partition, offset)
        for offset, (members, append_ms, partition) in enumerate(records)
    ]
    return report_on(sample, decode_sample(sample, SCHEMA, T_MS), SCHEMA)


def payment(identity: str, at_ms: int = T_MS, **more: Any) -> dict[str, Any]:
    return {"transactionId": identity, "eventTime": at_ms, **more}


def test_fields_have_nulls_ranges_and_usual_texts() -> None:
    found = report(
        (payment("a", amount=1.5, kind="CSH", isNew=True), T_MS, 0),
        (payment("b", amount=-2, kind="CSH"), T_MS, 0),
        (payment("c", kind="CRD", isNew=False), T_MS, 0),
        (None, T_MS, 0),
    )
    identity, time, amount, kind, is_new = found.fields
    assert (found.records, found.payments, {name: count for name, (count, _) in found.rejected.items()}) == (
        4,
        3,
        {"malformed_json": 1},
    )
    assert (identity.distinct, identity.null_share) == (3, 0)
    assert (time.least, time.largest) == ("2025-11-24T16:00:00Z", "2025-11-24T16:00:00Z")
    assert (amount.least, amount.largest, round(amount.null_share, 3)) == ("-2.00", "1.50", 0.333)
    assert kind.usual == {"CSH": 2, "CRD": 1}
    assert is_new.usual == {"true": 1, "false": 1}


def test_times_are_compared_with_the_arrival() -> None:
    local = [(payment(str(i), T_MS + HOUR_MS + i), T_MS + 200 + i, 0) for i in range(10)]
    found = report(*local).time
    assert found is not None
    assert (found.future_share, found.shift_h, found.median_lag_ms) == (1, 1, 200 - HOUR_MS)


def test_ids_that_occur_again_have_equal_content_or_another() -> None:
    found = report(
        (payment("a", amount=1), T_MS, 0),
        (payment("a", amount=1), T_MS, 1),
        (payment("a", amount=2), T_MS, 0),
        (payment("a"), T_MS, 0),
        (payment("b"), T_MS, 0),
    )
    assert (found.repeated, found.conflicting) == (1, 2)


def test_a_partition_whose_payments_are_a_minute_older_is_named() -> None:
    at_ms = T_MS - 60_000
    found = report((payment("a"), T_MS, 0), (payment("b", at_ms), T_MS, 1), (payment("c", at_ms - 9), T_MS, 1))
    behind = found.held_back_by
    assert behind is not None
    assert (behind.partition, behind.payments, behind.newest_ms) == (1, 2, at_ms)


def test_a_partition_without_a_payment_of_the_last_seconds_is_not_behind() -> None:
    assert report((payment("a"), T_MS, 0), (payment("b", T_MS - 59_999), T_MS, 1)).held_back_by is None


def test_a_sample_without_a_payment_has_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report((None, T_MS, 0)), as_json=False)
    assert "0 payments in the 1 newest records" in capsys.readouterr().out


def test_the_report_is_printed_for_people_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = report((payment("a", kind="\x1b[31m"), T_MS - HOUR_MS, 0), (payment("b"), T_MS - HOUR_MS, 1))
    print_report(found, as_json=False)
    text = capsys.readouterr().out
    assert "declare the `zone` of the field" in text
    assert "\x1b" not in text
    print_report(found, as_json=True)
    assert json.loads(capsys.readouterr().out)["payments"] == 2
