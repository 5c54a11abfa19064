"""Long windows: rows and their sums count alike, in the arrays, in the state log, and after a restore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import BY_ARRIVAL
from fraud_rules.engine.state.chunks import decode_parts
from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.state.series_sums import StepSums
from fraud_rules.engine.state.store import KeyGroupView
from fraud_rules.engine.statelog import read_image
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import Replay, alert_members, batch_inputs, decode_exactly, settings_of_recording
from tests.support import oracle
from tests.support.conformance import load_schema, same_answer
from tests.support.rules import sum_rule
from tests.support.streams.features import Features, with_features
from tests.support.streams.generated import START_MS, cuts_only, documents
from tests.support.streams.runs import STREAMS, check_stream, described, stream_seeds

SCHEMA = load_schema("nullable")
AT_ONCE = replace(BY_ARRIVAL, grace_ms=1)
"""The order of a stream without slow partitions and early pins: rows become parts of sums with the next batch."""
MINUTE_MS = 60_000
RULE = sum_rule(aggregateFieldName="points", limitOperatorType=">=", limit=0, windowMinutes=600, resolutionSeconds=600)


class _FreshViews:
    """A store that has lost its view before each batch."""

    @contextmanager
    def hold(self, key_group: int) -> Iterator[KeyGroupView]:
        yield KeyGroupView(np.zeros(4, dtype=np.int64), None)


def _replayed(document: Mapping[str, Any]) -> tuple[Replay, list[dict[str, Any]]]:
    """Replay a document whose rows become parts of sums at once, without views. Returns the alerts, too."""
    recording = Recording.of_document(document)
    settings = settings_of_recording(recording, DetectorSettings())
    run = Replay(SCHEMA, settings, _FreshViews(), AT_ONCE)
    alerts = []
    for batch in batch_inputs(recording, SCHEMA, settings):
        outputs = run.evaluate(batch.records, batch.timeline, 0).outputs
        alerts += [alert_members(decode_exactly(alert.json)) for output in outputs for alert in output.alerts]
    return run, alerts


def _paid(number: int, minute: int, **fields: Any) -> dict[str, Any]:
    at_ms = START_MS + minute * MINUTE_MS
    return {"at": at_ms, "tx": {"transactionId": number, "eventTime": at_ms, "payeeId": 1, "points": 1, **fields}}


def _cut(steps: list[dict[str, Any]], each: int) -> dict[str, Any]:
    """A document with a batch for each so many payments."""
    payments = sum("tx" in step for step in steps)
    document = {"steps": steps, "settings": {"detailMinutes": 10, "maxOutOfOrdernessMs": 0}}
    return cuts_only(document, list(range(each, payments, each)))


@stream_seeds(STREAMS // 5)
def test_sums_count_like_their_rows_after_a_restore_before_each_batch(stream_seed: int) -> None:
    streams = with_features(documents(partitions=1, cut=False), Features(resolutions=True))

    def check(drawn: tuple[dict[str, Any], list[int]]) -> None:
        document = _cut_in_order(*drawn)
        expected = oracle.evaluate(document, SCHEMA)
        _, alerts = _replayed(document)
        differences = same_answer(expected, {**expected, "alerts": _in_order(alerts, expected["alerts"])})
        assert not differences, described(differences, document)

    check_stream(stream_seed, st.tuples(streams, st.lists(st.integers(0, 40), max_size=12)), check)


def _cut_in_order(document: dict[str, Any], ends: Sequence[int]) -> dict[str, Any]:
    """Cut a stream of one partition at these transactions. A batch sees the rules before its last transaction, so no
    transaction of a state comes after a batch that has seen the end of the state."""
    rules_before = [0]
    rules = 0
    for step in document["steps"]:
        if "tx" in step:
            rules_before.append(rules)
        rules += "rule" in step
    last = len(rules_before) - 1
    bounds = sorted({min(end, last) for end in ends} | {last})
    batches = [{"offsets": {"transactions": {"0": end}}, "pin": rules_before[end]} for end in bounds if end]
    return {**document, "batches": batches}


def _in_order(alerts: list[dict[str, Any]], expected: list[Any]) -> list[dict[str, Any]]:
    """The alerts in the order of the transactions; a replay has them by key group. An id can come again with another
    event time, after single rows are gone."""
    order = {_delivery(each): number for number, each in enumerate(expected)}
    return sorted(alerts, key=lambda alert: (order.get(_delivery(alert), len(order)), alert["ruleId"]))


def _delivery(alert: Mapping[str, Any]) -> tuple[int, int]:
    return alert["transactionId"], alert["windowEnd"]


def test_a_log_of_many_batches_keeps_a_sum_for_each_step() -> None:
    payments = [_paid(minute, minute) for minute in range(1_500)]
    run, alerts = _replayed(_cut([{"at": START_MS, "rule": RULE}, *payments], each=30))
    assert [alert["windowCount"] for alert in alerts[-2:]] == [608, 609]  # from minute 891 on
    rows, sums = _content(run)
    assert len(rows) <= 4 * 30, "a batch folds two chunks at most, or merges"
    assert len(sums) <= 2 * 61


def _content(run: Replay) -> tuple[TransactionBatch, StepSums]:
    """The rows and the sums in the log of the only key group."""
    head, chunks = read_image(run.images()[0])
    rows, sums = [], []
    for info in decode_head(head).chunks:
        for part in decode_parts(chunks[info.name]):
            rows.append(TransactionBatch.unpack(part.rows))
            if part.sums is not None:
                sums.append(StepSums.unpack(part.sums))
    return TransactionBatch.concat(rows), _joined(sums)


def _joined(sums: list[StepSums]) -> StepSums:
    return StepSums(np.concatenate([each.numbers for each in sums]), ())


@pytest.mark.parametrize(
    ("function", "value"), [("SUM", "45"), ("COUNT", "10"), ("AVG", "4.5"), ("MIN", "0"), ("MAX", "9")]
)
def test_each_function_reads_sums(function: str, value: str) -> None:
    rule = {**RULE, "aggregatorFunctionType": function, "limit": -1}
    payments = [_paid(number, 30 * number, points=number) for number in range(10)]
    _, alerts = _replayed(_cut([{"at": START_MS, "rule": rule}, *payments], each=1))
    assert [alert["triggeringValue"] for alert in alerts][-1] == value
