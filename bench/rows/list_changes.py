"""Measures changes of a long list on a running detector, and the first alert after a start with such a list."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from bench.detector import command
from bench.figures import Figure, Rows, Scale, at_least, at_most
from bench.inputs.loads import RATE_UNIFORM, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import FIRE_ALL, Document, rule
from bench.lab import Lab, Session
from bench.meters.watching import quantile
from fraud_rules.codec.rules.lists import encode_list_records, list_key
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.consume import ReceivedRecord
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.rule_status import decode_operation
from fraud_rules.model.value_list import ListOperation, ListType
from fraud_rules.runtime.clock import now_ms

_LIST = "measured"
_VALUES = 1_000_000
_FIRST = 10**11
_CHANGED = 100
_CHANGES = 30
_BURST = 10_000
_RATE = 1_000
_PAUSE_S = 1.0
_SECONDS = 300

_LISTED: Document = rule(2, ["payeeId"], "SUM", 0, when=f"beneficiaryId in list('{_LIST}')")


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    with lab.session("no-list") as session:
        session.start(FIRE_ALL)
        plain_s = _first_alert_s(session)
    with lab.session("lists") as session:
        _append(session, ListOperation.SET, range(_FIRST, _FIRST + scale.of(_VALUES, 50_000)))
        session.start((*FIRE_ALL, _LISTED))
        listed_s = _first_alert_s(session)
        steady = ["bench.inputs.producing", "--bootstrap", session.bootstrap, "--topic", session.names.transactions]
        with command(*steady, "--rate", str(_RATE), "--seconds", str(_SECONDS), "--id-base", "1000") as producer:
            try:
                time.sleep(scale.steady_s)
                values = _changes(session, scale.of(_CHANGES, 5)) | _burst(session, scale.of(_BURST))
            finally:
                producer.kill()
    return values | {"plain_s": plain_s, "listed_s": listed_s, "delay_s": listed_s - plain_s}


def _first_alert_s(session: Session) -> float:
    """Start the detector again, and return the seconds from its start until the alert of a waiting transaction."""
    backlog = Backlog(session.bootstrap, session.names.transactions)
    made = transactions(replace(RATE_UNIFORM, count=2), clock=now_ms)
    for ends in (False, True):
        backlog.hold(islice(made, 1))
        backlog.release()
        if not ends:
            session.await_evaluated(1)
            session.stop()
    started = time.monotonic()
    session.launch()
    next(islice(session.received(session.names.alerts, from_start=True), 1, None))
    return time.monotonic() - started


def _changes(session: Session, count: int) -> dict[str, float]:
    """Remove and add values in turn. Return the times from the append until a reader sees the change as live."""
    reports = session.received(session.names.rule_operations)
    values = range(_FIRST, _FIRST + _CHANGED)
    live = []
    for n in range(count):
        time.sleep(_PAUSE_S)
        (version,) = _append(session, ListOperation.ADD if n % 2 else ListOperation.REMOVE, values)
        live.append(float(_live(reports, version).received_ms - _append_ms(session, version)))
    live.sort()
    return {"live_p50_ms": quantile(live, 0.5), "live_max_ms": live[-1]}


def _burst(session: Session, count: int) -> dict[str, float]:
    """Remove values, and add them again in one record each, all at once.

    Return the time until the last is live, and the batches' p99.
    """
    reports = session.received(session.names.rule_operations)
    values = range(_FIRST, _FIRST + count)
    (version,) = _append(session, ListOperation.REMOVE, values)
    _live(reports, version)
    before = _timings(session)[-100:]
    records = [record for value in values for record in _encoded(ListOperation.ADD, [value])]
    versions = append_records(session.kafka, session.names.rules, records)
    live_ms = _live(reports, versions[-1]).received_ms
    first_ms, last_ms = (_append_ms(session, version) for version in (versions[0], versions[-1]))
    time.sleep(_PAUSE_S)  # the timings of a batch are in the progress of the next one
    during = [each for each in _timings(session) if each["batchId"] > before[-1]["batchId"]]
    return {
        "burst_per_s": 1_000 * count / max(1, last_ms - first_ms),
        "burst_live_s": (live_ms - first_ms) / 1_000,
        "p99_before_ms": _p99_ms(before),
        "burst_p99_ms": _p99_ms(during),
    }


def _append_ms(session: Session, version: int) -> int:
    """The append time of a record of the rule log."""
    with TopicReader(session.kafka, session.names.rules) as reader:
        (record,) = reader.read(version, version + 1)
    return record.append_ms


def _live(reports: Iterator[ReceivedRecord], version: int) -> ReceivedRecord:
    """Read the reports up to the one on a version, which must be live."""
    for received in reports:
        report = decode_operation(received.record.value or b"")
        assert not report.rejected, report
        if report.rule_version == version:
            return received
    raise AssertionError("unreachable: the reader waits or fails")


def _append(session: Session, operation: ListOperation, values: Sequence[int]) -> list[int]:
    return append_records(session.kafka, session.names.rules, _encoded(operation, values))


def _encoded(operation: ListOperation, values: Sequence[int]) -> list[tuple[bytes, bytes]]:
    most = DetectorSettings().limits.max_list_record_bytes
    records = encode_list_records(_LIST, operation, ListType.LONG, list(values), "bench", most)
    return [(list_key(_LIST), record) for record in records]


def _timings(session: Session) -> list[Mapping[str, Any]]:
    """The timings of the newest batches."""
    return [each["previous"] for each in session.progress(400) if each.get("previous")]


def _p99_ms(timings: Sequence[Mapping[str, Any]]) -> float:
    """The largest 99th percentile of a batch."""
    return max((float(each["p99Ms"]) for each in timings if each["p99Ms"] is not None), default=0.0)


ROWS = (
    Rows(
        "list_changes",
        "A list of a million values, running detector",
        f"The list has {_VALUES:,} longs, and a rule names it, at {_RATE:,} tx/s. A change adds or removes {_CHANGED} "
        "values in one record; its time goes from the append until a reader has the detector's report. In the "
        f"burst, {_BURST:,} records add one value each; they were removed before, to leave room. The first "
        "alert is the alert of a transaction that waits at the start of a detector with a checkpoint; the two "
        "detectors differ only in the list and its rule.",
        (
            Figure("live_p50_ms", f"change of {_CHANGED} values until it is live, p50", "ms"),
            Figure(
                "live_max_ms",
                f"change of {_CHANGED} values until it is live, largest of {_CHANGES}",
                "ms",
                at_most(1_000),
            ),
            Figure("burst_per_s", f"append of {_BURST:,} changes", "records/s", at_least(10_000)),
            Figure("burst_live_s", f"append of {_BURST:,} changes until the last is live", "s"),
            Figure("p99_before_ms", "largest p99 of a batch before the burst", "ms"),
            Figure("burst_p99_ms", "largest p99 of a batch during the burst", "ms", at_most(2_000)),
            Figure("plain_s", "start until the first alert, without the list", "s"),
            Figure("listed_s", "start until the first alert, with the list", "s"),
            Figure("delay_s", "delay of the first alert by the list", "s", at_most(5)),
        ),
        _measure,
    ),
)
