"""The engine that the detector runs against the brute-force oracle, on the conformance cases and on generated streams.

`FRAUD_STREAMS` sets how many streams (200 by default), `FRAUD_SEED` which ones; a failing stream is shrunk to a
document that `fraud replay` can read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from fraud_rules.replay import replay
from fraud_rules.settings import DetectorSettings
from tests import oracle
from tests.conformance import Case, differences, load_cases, load_schema, same_answer
from tests.streams import cuts_only, documents, in_stream_order

STREAMS = int(os.environ.get("FRAUD_STREAMS", "200"))
SEED = int(os.environ.get("FRAUD_SEED", "1"))
NULLABLE = load_schema("nullable")
SETTINGS = DetectorSettings()

settings.register_profile(
    "streams",
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
streams = settings.get_profile("streams")


@pytest.fixture(autouse=True, scope="module")
def _announce() -> None:
    print(f"\n{STREAMS} generated streams, FRAUD_SEED={SEED}")  # noqa: T201  names the run when a test fails


def _engine(document: Mapping[str, Any]) -> dict[str, list[Any]]:
    return replay(document, NULLABLE, SETTINGS)


def _report(document: Mapping[str, Any], found: list[str]) -> str:
    """What a person needs to see: the differences, and the document one step a line."""
    head = {name: value for name, value in document.items() if name != "steps"}
    return "\n".join([*found, json.dumps(head), *(json.dumps(step) for step in document["steps"])])


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_engine_answers_every_case(case: Case) -> None:
    answer = replay(case.document, load_schema(case.schema), SETTINGS)
    assert not differences(case.expect, answer), case.shows


@seed(SEED)
@settings(streams, max_examples=STREAMS)
@given(documents())
def test_engine_agrees_with_the_oracle(document: dict[str, Any]) -> None:
    found = same_answer(oracle.evaluate(document, NULLABLE), _engine(document))
    assert not found, _report(document, found)


@seed(SEED)
@settings(streams, max_examples=max(STREAMS // 4, 1))
@given(documents(partitions=1, cut=False), st.lists(st.integers(0, 40), max_size=12))
def test_one_partition_gives_one_answer_however_it_is_cut(document: dict[str, Any], ends: list[int]) -> None:
    found = same_answer(_engine(document), _engine(cuts_only(document, ends)))
    assert not found, _report(cuts_only(document, ends), found)


@seed(SEED)
@settings(streams, max_examples=max(STREAMS // 4, 1))
@given(documents(partitions=1, cut=False), st.integers(2, 5))
def test_key_groups_split_watermarks_but_never_a_window(document: dict[str, Any], key_groups: int) -> None:
    """With lateness and retention out of the way, the number of key groups can be seen in `windowComplete` only."""
    wide = {**document, "settings": {**document["settings"], "maxOutOfOrdernessMs": 3_600_000}}
    one, many = (_without_completeness(_engine({**wide, "keyGroups": count})) for count in (1, key_groups))
    found = same_answer(one, many)
    assert not found, _report(wide, found)


def _without_completeness(answer: dict[str, list[Any]]) -> dict[str, list[Any]]:
    alerts = [{name: value for name, value in alert.items() if name != "windowComplete"} for alert in answer["alerts"]]
    return {**answer, "alerts": alerts}


@seed(SEED)
@settings(streams, max_examples=max(STREAMS // 4, 1))
@given(documents(partitions=1, cut=False))
def test_streams_are_what_they_claim(document: dict[str, Any]) -> None:
    """The generator's promise that the cuts above rely on: one partition's append times never go back."""
    assert in_stream_order(document)
