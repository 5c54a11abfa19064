"""Generated streams with the third edition: the oracle answers them, and the features occur in its alerts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.support import oracle
from tests.support.conformance import load_schema, same_answer
from tests.support.streams.features import ALL, Features, with_features
from tests.support.streams.generated import cuts_only, documents
from tests.support.streams.runs import check_stream, drawn, stream_seeds

NULLABLE = load_schema("nullable")
SEEDS = range(40)

Alert = dict[str, Any]


@pytest.mark.parametrize(
    ("features", "occurs"),
    [
        (Features(limits=True, maps=True), lambda alert: "maps" in alert and "limit" in alert),
        (Features(previous=True), lambda alert: "previous" in alert),
        (Features(conditions=True), lambda alert: any("ruleId" in each for each in alert.get("conditions", []))),
        (Features(calendars=True), lambda alert: alert["windowEnd"] - alert["windowStart"] > 60_000),
    ],
    ids=["limits and maps", "previous", "conditions", "calendars"],
)
def test_alerts_show_the_feature(features: Features, occurs: Callable[[Alert], bool]) -> None:
    streams = (drawn(seed, with_features(documents(), features)) for seed in SEEDS)
    alerts = (alert for stream in streams for alert in oracle.evaluate(stream, NULLABLE)["alerts"])
    assert any(map(occurs, alerts))


def test_a_rollout_leaves_keys_out() -> None:
    some, all_keys = 0, 0
    for seed in SEEDS:
        document = drawn(seed, with_features(documents(), Features(rollout=True)))
        everywhere = {**document, "steps": [_everywhere(step) for step in document["steps"]]}
        some += len(oracle.evaluate(document, NULLABLE)["alerts"])
        all_keys += len(oracle.evaluate(everywhere, NULLABLE)["alerts"])
        if 0 < some < all_keys:
            return
    raise AssertionError((some, all_keys))


def _everywhere(step: dict[str, Any]) -> dict[str, Any]:
    if step.get("rule", {}).get("rolloutPercent") in (None, 0) or not step["rule"]["groupingKeyNames"]:
        return step
    return {**step, "rule": {**step["rule"], "rolloutPercent": 100}}


def test_without_features_a_document_is_as_drawn() -> None:
    assert drawn(1, with_features(documents(), Features())) == drawn(1, documents())


@stream_seeds(10)
def test_one_partition_gives_one_answer_however_it_is_cut(stream_seed: int) -> None:
    ends = st.lists(st.integers(0, 40), max_size=12)

    def check(given: tuple[dict[str, Any], list[int]]) -> None:
        document, cut_at = given
        whole = oracle.evaluate(document, NULLABLE)
        assert not same_answer(whole, oracle.evaluate(cuts_only(document, cut_at), NULLABLE))

    check_stream(stream_seed, st.tuples(with_features(documents(partitions=1, cut=False), ALL), ends), check)
