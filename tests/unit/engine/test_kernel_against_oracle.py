"""The engine that the detector runs against the brute-force oracle, on the conformance cases and on generated streams.

`FRAUD_STREAMS` sets how many streams (200 by default), `FRAUD_SEED` which ones; a failing stream is shrunk to a
document that `fraud replay` can read. Each stream is a run of Hypothesis with a seed of its own: one long run would
spend five of six examples on variations of the same few streams.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.replay.replay import replay
from tests.support import oracle
from tests.support.conformance import Case, differences, load_cases, load_schema, same_answer
from tests.support.streams.generated import START_MS, cuts_only, documents
from tests.support.streams.long import long_document
from tests.support.streams.shrinking import smallest

STREAMS = int(os.environ.get("FRAUD_STREAMS", "200"))
SEED = int(os.environ.get("FRAUD_SEED", "1"))
NULLABLE = load_schema("nullable")
SETTINGS = DetectorSettings()

# The first example is always the simplest document there is, the second a random one. `shrinking` makes it small.
ONE_STREAM = settings(
    max_examples=2, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
Answer = Mapping[str, list[Any]]
Engine = Callable[[dict[str, Any]], Answer]


def _seeds(streams: int) -> pytest.MarkDecorator:
    """One test a stream, named after the stream's seed."""
    first = SEED * 1_000_000
    return pytest.mark.parametrize("stream_seed", range(first, first + max(streams, 1)))


def _draw(stream_seed: int, strategy: SearchStrategy[Any]) -> Any:
    """What the strategy draws with this seed."""
    drawn: list[Any] = []

    @seed(stream_seed)
    @ONE_STREAM
    @given(strategy)
    def keep(example: Any) -> None:
        drawn.append(example)

    keep()
    return drawn[-1]


def _engine(document: Mapping[str, Any]) -> Answer:
    return replay(document, NULLABLE, SETTINGS)


def _oracle(document: Mapping[str, Any]) -> Answer:
    return oracle.evaluate(document, NULLABLE)


def _assert_same(document: dict[str, Any], one: Engine, other: Engine) -> None:
    """Fail with what a person needs to see: the differences of a small document, and that document one step a line."""

    def differ(candidate: dict[str, Any]) -> list[str]:
        return same_answer(one(candidate), other(candidate))

    if differ(document):
        small = smallest(document, lambda candidate: bool(differ(candidate)))
        head = {name: value for name, value in small.items() if name != "steps"}
        pytest.fail("\n".join([*differ(small), json.dumps(head), *(json.dumps(step) for step in small["steps"])]))


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_engine_answers_every_case(case: Case) -> None:
    answer = replay(case.document, load_schema(case.schema), SETTINGS)
    assert not differences(case.expect, answer), case.shows


@pytest.mark.parametrize("engine", [_oracle, _engine])
def test_a_rule_refused_by_a_recorded_batch_is_never_in_force(engine: Engine) -> None:
    rule = {
        "ruleId": 1,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["payeeId"],
        "aggregatorFunctionType": "COUNT",
        "limitOperatorType": ">=",
        "limit": 1,
        "windowSeconds": 1,
    }
    document = {
        "steps": [
            {"at": START_MS, "rule": rule},
            {"at": START_MS, "rule": {**rule, "limit": 0}},
            {"at": START_MS, "tx": {"transactionId": 1, "eventTime": START_MS, "payeeId": 1}},
            {"at": START_MS + 9, "tx": {"transactionId": 2, "eventTime": START_MS, "payeeId": 1}},
        ],
        "batches": [
            {"offsets": {"transactions": {"0": 1}}, "pin": 2, "refused": {"1": [["state", "too much"]]}},
            {"offsets": {"transactions": {"0": 2}}, "pin": 2},
        ],
    }
    answer = engine(document)
    assert [(alert["transactionId"], alert["ruleVersion"]) for alert in answer["alerts"]] == [(1, 0), (2, 0)]
    assert [rejected["ruleVersion"] for rejected in answer["rejected"]] == [1]


@_seeds(STREAMS)
def test_engine_agrees_with_the_oracle(stream_seed: int) -> None:
    _assert_same(_draw(stream_seed, documents()), _oracle, _engine)


@_seeds(STREAMS // 20)
def test_engine_agrees_with_the_oracle_for_long(stream_seed: int) -> None:
    _assert_same(long_document(stream_seed, transactions=100 + 200 * (stream_seed % 4)), _oracle, _engine)


@_seeds(STREAMS // 4)
def test_one_partition_gives_one_answer_however_it_is_cut(stream_seed: int) -> None:
    ends = st.lists(st.integers(0, 40), max_size=12)
    document, cut_at = _draw(stream_seed, st.tuples(documents(partitions=1, cut=False), ends))
    _assert_same(document, _engine, lambda whole: _engine(cuts_only(whole, cut_at)))


@_seeds(STREAMS // 4)
def test_key_groups_split_watermarks_but_never_a_window(stream_seed: int) -> None:
    """With lateness and retention out of the way, the number of key groups can be seen in `windowComplete` only."""
    document, key_groups = _draw(stream_seed, st.tuples(documents(partitions=1, cut=False), st.integers(2, 5)))
    document["settings"]["maxOutOfOrdernessMs"] = 3_600_000

    def spread_over(count: int) -> Engine:
        return lambda whole: _without_completeness(_engine({**whole, "keyGroups": count}))

    _assert_same(document, spread_over(1), spread_over(key_groups))


def _without_completeness(answer: Answer) -> Answer:
    alerts = [{name: value for name, value in alert.items() if name != "windowComplete"} for alert in answer["alerts"]]
    return {**answer, "alerts": alerts}
