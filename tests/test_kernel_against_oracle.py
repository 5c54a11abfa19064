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
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fraud_rules.replay import replay
from fraud_rules.settings import DetectorSettings
from tests import oracle
from tests.conformance import Case, differences, load_cases, load_schema, same_answer
from tests.long_streams import long_document
from tests.streams import cuts_only, documents

STREAMS = int(os.environ.get("FRAUD_STREAMS", "200"))
SEED = int(os.environ.get("FRAUD_SEED", "1"))
NULLABLE = load_schema("nullable")
SETTINGS = DetectorSettings()

# The first example is always the simplest document there is, the second a random one.
ONE_STREAM = settings(max_examples=2, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def _seeds(streams: int) -> pytest.MarkDecorator:
    """One test a stream, named after the stream's seed."""
    first = SEED * 1_000_000
    return pytest.mark.parametrize("stream_seed", range(first, first + max(streams, 1)))


def _for_one_stream(stream_seed: int, strategy: SearchStrategy[Any], check: Callable[[Any], None]) -> None:
    """Run a check on the stream of this seed, and shrink the stream if it fails."""

    @seed(stream_seed)
    @settings(ONE_STREAM)
    @given(strategy)
    def run(drawn: Any) -> None:
        check(drawn)

    run()


def _engine(document: Mapping[str, Any]) -> dict[str, list[Any]]:
    return replay(document, NULLABLE, SETTINGS)


def _assert_same(document: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Fail with what a person needs to see: the differences, and the document one step a line."""
    found = same_answer(one, other)
    if found:
        head = {name: value for name, value in document.items() if name != "steps"}
        pytest.fail("\n".join([*found, json.dumps(head), *(json.dumps(step) for step in document["steps"])]))


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_engine_answers_every_case(case: Case) -> None:
    answer = replay(case.document, load_schema(case.schema), SETTINGS)
    assert not differences(case.expect, answer), case.shows


@_seeds(STREAMS)
def test_engine_agrees_with_the_oracle(stream_seed: int) -> None:
    def check(document: dict[str, Any]) -> None:
        _assert_same(document, oracle.evaluate(document, NULLABLE), _engine(document))

    _for_one_stream(stream_seed, documents(), check)


@_seeds(STREAMS // 20)
def test_engine_agrees_with_the_oracle_for_long(stream_seed: int) -> None:
    document = long_document(stream_seed, transactions=100 + 200 * (stream_seed % 4))
    found = same_answer(oracle.evaluate(document, NULLABLE), _engine(document))
    assert not found, found[:3]


@_seeds(STREAMS // 4)
def test_one_partition_gives_one_answer_however_it_is_cut(stream_seed: int) -> None:
    def check(drawn: tuple[dict[str, Any], list[int]]) -> None:
        whole, cut = drawn[0], cuts_only(*drawn)
        _assert_same(cut, _engine(whole), _engine(cut))

    ends = st.lists(st.integers(0, 40), max_size=12)
    _for_one_stream(stream_seed, st.tuples(documents(partitions=1, cut=False), ends), check)


@_seeds(STREAMS // 4)
def test_key_groups_split_watermarks_but_never_a_window(stream_seed: int) -> None:
    """With lateness and retention out of the way, the number of key groups can be seen in `windowComplete` only."""

    def check(drawn: tuple[dict[str, Any], int]) -> None:
        document = {**drawn[0], "settings": {**drawn[0]["settings"], "maxOutOfOrdernessMs": 3_600_000}}
        one, many = (_without_completeness(_engine({**document, "keyGroups": count})) for count in (1, drawn[1]))
        _assert_same(document, one, many)

    _for_one_stream(stream_seed, st.tuples(documents(partitions=1, cut=False), st.integers(2, 5)), check)


def _without_completeness(answer: dict[str, list[Any]]) -> dict[str, list[Any]]:
    alerts = [{name: value for name, value in alert.items() if name != "windowComplete"} for alert in answer["alerts"]]
    return {**answer, "alerts": alerts}
