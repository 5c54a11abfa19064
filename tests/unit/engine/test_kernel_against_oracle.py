"""The engine of the detector against the brute-force oracle, on the conformance cases and on generated streams.

`tests.support.streams.runs` says how many streams there are and how a failing one becomes small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.replay import replay
from tests.support import oracle
from tests.support.conformance import Case, differences, failing_cases, load_cases, load_schema, same_answer
from tests.support.recovery.rule_members import schema_with_account
from tests.support.rules import count_rule
from tests.support.streams.features import (
    ENTITIES,
    Features,
    previous_documents,
    with_any_features,
    with_features,
)
from tests.support.streams.generated import (
    START_MS,
    calendar_documents,
    changing_documents,
    cuts_only,
    documents,
    documents_of_every_order,
    warmed_documents,
)
from tests.support.streams.lagging import lagging_document
from tests.support.streams.long import long_document
from tests.support.streams.runs import (
    STREAMS,
    Family,
    check_long,
    check_stream,
    described,
    stream_families,
    stream_seeds,
)

NULLABLE = load_schema("nullable")
ACCOUNTS = replace(NULLABLE, entities=ENTITIES)
SETTINGS = DetectorSettings()

Answer = Mapping[str, list[Any]]
Engine = Callable[[dict[str, Any]], Answer]


def _engine(document: Mapping[str, Any]) -> Answer:
    return replay(document, NULLABLE, SETTINGS)


def _oracle(document: Mapping[str, Any]) -> Answer:
    return oracle.evaluate(document, NULLABLE)


def paid(number: int, after_ms: int, ahead_ms: int = 0) -> dict[str, Any]:
    tx = {"transactionId": number, "eventTime": START_MS + after_ms + ahead_ms, "payeeId": 1}
    return {"at": START_MS + after_ms, "tx": tx}


def _assert_same(document: dict[str, Any], one: Engine, other: Engine) -> None:
    differences = same_answer(one(document), other(document))
    assert not differences, described(differences, document)


def test_engine_answers_every_case() -> None:
    def faults_of(case: Case) -> list[str]:
        return differences(case.expect, replay(case.document, load_schema(case.schema), SETTINGS))

    assert failing_cases(faults_of) == {}


def test_a_boolean_of_a_key_is_true_or_false_and_no_number() -> None:
    (case,) = [each for each in load_cases() if each.name == "boolean_fields"]
    keys = [alert["key"]["cardPresent"] for alert in _engine(case.document)["alerts"] if "cardPresent" in alert["key"]]
    assert [type(key) for key in keys] == [bool, bool]


@pytest.mark.parametrize("engine", [_oracle, _engine])
def test_a_rule_refused_by_a_recorded_batch_is_never_in_force(engine: Engine) -> None:
    rule = count_rule(limit=1, windowSeconds=1)
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


@pytest.mark.parametrize("engine", [_oracle, _engine])
def test_a_row_of_a_warm_up_arrived_before_every_reset(engine: Engine) -> None:
    """Also a row whose event time is after the reset, because its clock was ahead."""
    rule = count_rule(aggregatorFunctionType="COUNT_WITH_RESET", limit=2, windowSeconds=60)
    steps = [
        paid(1, 0, ahead_ms=5_000), {"at": START_MS + 1, "rule": rule}, paid(2, 10), paid(3, 20),
        {"at": START_MS + 30, "rule": {**rule, "ruleId": 2, "limit": 99, "warmUp": True}},
        paid(4, 6_000), paid(5, 6_010),
    ]  # fmt: skip
    batches: list[dict[str, Any]] = [{"offsets": {"transactions": {"0": end}}, "pin": 2} for end in (3, 5)]
    batches[1]["warmUps"] = [{"version": 1, "ends": {"0": 3}}]
    answer = engine({"steps": steps, "batches": batches})
    assert [(alert["transactionId"], alert["windowCount"]) for alert in answer["alerts"]] == [(3, 2), (5, 2)]


@pytest.mark.parametrize("engine", [_oracle, _engine])
def test_a_history_does_not_begin_with_a_row_that_an_ended_grouping_dropped(engine: Engine) -> None:
    """The batch of the first two rows does not see that the grouping has ended and begun again before them."""
    rule = count_rule(limit=2, windowSeconds=1)
    steps = [
        {"at": START_MS, "rule": rule},
        {"at": START_MS, "rule": {"ruleId": 1, "ruleState": "DELETE"}},
        {"at": START_MS, "rule": {**rule, "warmUp": True}},
        paid(1, 0), paid(2, 3_000), paid(3, 3_500),
    ]  # fmt: skip
    batches: list[dict[str, Any]] = [
        {"offsets": {"transactions": {"0": 2}}, "pin": 1},
        {"offsets": {"transactions": {"0": 3}}, "pin": 3, "warmUps": [{"version": 2, "ends": {"0": 2}}]},
    ]
    answer = engine({"steps": steps, "batches": batches, "settings": {"maxOutOfOrdernessMs": 1_000}})
    assert [(each["transactionId"], each["windowCount"], each["windowComplete"]) for each in answer["alerts"]] == [
        (3, 2, False)
    ]


LONG = count_rule(limit=0, windowSeconds=90, resolutionSeconds=20)


@pytest.mark.parametrize("engine", [_oracle, _engine])
@pytest.mark.parametrize(
    "rules",
    [
        # The history keeps single rows for a shorter time than the grouping had kept them.
        [count_rule(limit=0, windowSeconds=30), {**LONG, "warmUp": True}],
        # The new series had no use for the row that the retention bound had passed, but that no sum had yet.
        [LONG, {**LONG, "filter": "payeeId = 1", "warmUp": True}],
        # The retention bound falls below the sums of another rule.
        [{**LONG, "ruleId": 2, "limit": 99}, count_rule(limit=0, windowSeconds=60, warmUp=True)],
    ],
)
def test_a_warm_up_adds_no_row_twice_beside_sums(rules: list[dict[str, Any]], engine: Engine) -> None:
    steps = [
        {"at": START_MS, "rule": rules[0]}, paid(1, 1_000), paid(2, 20_000),
        {"at": START_MS + 20_001, "rule": rules[1]}, paid(3, 50_000),
    ]  # fmt: skip
    batches: list[dict[str, Any]] = [{"offsets": {"transactions": {"0": end}}, "pin": 2} for end in (2, 3)]
    batches[1]["warmUps"] = [{"version": 1, "ends": {"0": 2}}]
    answer = engine(
        {"steps": steps, "batches": batches, "settings": {"maxOutOfOrdernessMs": 1_000, "detailMinutes": 0}}
    )
    (alert,) = [each for each in answer["alerts"] if each["transactionId"] == 3]
    assert alert["windowCount"] == 3


@pytest.mark.parametrize("engine", [_oracle, _engine])
def test_a_named_rule_that_does_not_hold_has_the_windows_of_its_conditions(engine: Engine) -> None:
    condition = {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "limit": 9, "windowSeconds": 60}
    naming = {"ruleId": 2, "conditions": [{"ruleId": 1}], "require": "none"}
    steps = [
        {"at": START_MS, "rule": count_rule(limit=9, windowSeconds=1, conditions=[condition])},
        {"at": START_MS, "rule": count_rule(limit=0, windowSeconds=1, **naming)},
        paid(1, 0), paid(2, 5_000), paid(3, 61_000),
    ]  # fmt: skip
    alerts = {each["transactionId"]: each for each in engine({"steps": steps})["alerts"]}
    assert [alerts[number]["windowComplete"] for number in (2, 3)] == [False, True]


@stream_seeds(STREAMS // 20, first_item=2)
def test_engine_agrees_with_the_oracle_about_lagging_batches(
    stream_seed: int, project: Project, tmp_path: Path
) -> None:
    schema = TransactionSchema.load(schema_with_account(tmp_path, project))
    document = lagging_document(stream_seed, 600)
    found = same_answer(oracle.evaluate(document, schema), replay(document, schema, SETTINGS))
    assert not found, described(found, document)


CONDITIONS = Features(conditions=True, named_rules=False)
NAMED = Features(conditions=True)
OTHERS = Features(limits=True, calendars=True, maps=True, previous=True, conditions=True, entities=True)
FEW = {
    "maps": Features(maps=True),
    "conditions": CONDITIONS,
    "conditions beside calendars": CONDITIONS._replace(limits=True, calendars=True, rollout=True),
    "conditions beside previous payments": CONDITIONS._replace(limits=True, maps=True, previous=True),
    "named rules": NAMED,
    "named rules beside others": NAMED._replace(limits=True, maps=True, previous=True),
    "long windows": Features(resolutions=True),
    "entities": Features(entities=True),
    "own aggregate": NAMED._replace(own=True, entities=True),
    "own aggregate beside others": OTHERS._replace(own=True),
}
"""Members that "all members together" has, too: alone they are in fewer rejected rules."""
FAMILIES = {
    "plain": Family(documents(), STREAMS, NULLABLE),
    "warm-ups": Family(warmed_documents(), STREAMS // 2, NULLABLE),
    "calendars turn": Family(calendar_documents(), STREAMS // 8, NULLABLE),
    "rules and lists change": Family(changing_documents(), STREAMS // 8, NULLABLE),
    "previous payments": Family(previous_documents(), STREAMS // 20, NULLABLE),
    "all members together": Family(with_any_features(documents()), STREAMS, ACCOUNTS),
    "all members together, warm-ups": Family(with_any_features(warmed_documents()), STREAMS // 2, ACCOUNTS),
} | {
    name: Family(with_features(documents(), members), STREAMS // 20, ACCOUNTS if members.entities else NULLABLE)
    for name, members in FEW.items()
}


@stream_families(FAMILIES)
def test_engine_agrees_with_the_oracle(stream_seed: int, family: Family) -> None:
    def check(document: dict[str, Any]) -> None:
        expected = oracle.evaluate(document, family.schema)
        differences = same_answer(expected, replay(document, family.schema, SETTINGS))
        assert not differences, described(differences, document)

    check_stream(stream_seed, family.streams, check)


def test_a_batch_reads_changes_of_a_rule_and_its_list_in_every_order() -> None:
    for document in documents_of_every_order():
        _assert_same(document, _oracle, _engine)


@stream_seeds(STREAMS // 20)
def test_engine_agrees_with_the_oracle_for_long(stream_seed: int) -> None:
    document = long_document(stream_seed, transactions=100 + 200 * (stream_seed % 4))
    check_long(document, lambda part: _assert_same(part, _oracle, _engine))


@stream_seeds(STREAMS // 10)
def test_one_partition_gives_one_answer_however_it_is_cut(stream_seed: int) -> None:
    ends = st.lists(st.integers(0, 40), max_size=12)

    def check(drawn: tuple[dict[str, Any], list[int]]) -> None:
        document, cut_at = drawn
        _assert_same(document, _engine, lambda whole: _engine(cuts_only(whole, cut_at)))

    check_stream(stream_seed, st.tuples(documents(partitions=1, cut=False), ends), check)


@stream_seeds(STREAMS // 10)
def test_key_groups_split_watermarks_but_never_a_window(stream_seed: int) -> None:
    """With lateness and retention out of the way, the number of key groups can be seen in `windowComplete` only."""

    def spread_over(count: int) -> Engine:
        return lambda whole: _without_completeness(_engine({**whole, "keyGroups": count}))

    def check(drawn: tuple[dict[str, Any], int]) -> None:
        document, key_groups = drawn
        document["settings"]["maxOutOfOrdernessMs"] = 3_600_000
        _assert_same(document, spread_over(1), spread_over(key_groups))

    check_stream(stream_seed, st.tuples(documents(partitions=1, cut=False), st.integers(2, 5)), check)


def _without_completeness(answer: Answer) -> Answer:
    alerts = [{name: value for name, value in alert.items() if name != "windowComplete"} for alert in answer["alerts"]]
    return {**answer, "alerts": alerts}
