"""The changes that the seed files make in the rule log."""

from __future__ import annotations

from typing import Any

import pytest

from fraud_ops.verdicts.collection_seeding import seed_collections
from fraud_ops.verdicts.seeding import SeedEffect, SeedPlan, seed_plan
from fraud_rules.codec.rules.apply import RulesRejected, ValidatedRecord
from fraud_rules.codec.rules.codec import encode_document, parse_rule_record, read_entry
from fraud_rules.codec.rules.collections.files import SeedCollection
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.ruleset import RuleSet, RuleTimeline
from fraud_rules.model.value_list import ListType
from fraud_rules.model.value_map import MapType, MapValueType
from tests.support.rules import SCHEMA, sum_rule

Document = dict[str, Any]


def rule(rule_id: int, **members: Any) -> Document:
    return sum_rule(rule_id, **{"limit": 100, "windowMinutes": 5, **members})


def in_files(*documents: Document) -> list[ValidatedRecord]:
    limits = RuleLimits()
    return [
        ValidatedRecord(f"{each['ruleId']}.yaml", parse_rule_record(encode_document(each), SCHEMA, limits))
        for each in documents
    ]


def in_log(*documents: Document) -> RuleSet:
    return timeline(*documents).latest


def timeline(*documents: Document) -> RuleTimeline:
    entries = [
        read_entry(version, 1_000 + version, encode_document(each), SCHEMA, RuleLimits())
        for version, each in enumerate(documents)
    ]
    return RuleTimeline().extended(entries, len(entries))


def test_each_rule_is_created_changed_deleted_or_left() -> None:
    files = in_files(rule(1), rule(2, limit=200), rule(3), rule(5))
    log = in_log(
        rule(2, source="seed"),
        rule(3, source="seed"),
        rule(4, source="seed", name="old"),
        rule(5, source="ui"),
        rule(6, source="cdc"),
    )
    plan = seed_plan(files, log)
    assert {each.subject: each.effect for each in plan.changes} == {
        "rule 1": SeedEffect.CREATE,
        "rule 2": SeedEffect.CHANGE,
        "rule 3": SeedEffect.UNCHANGED,
        "rule 4": SeedEffect.DELETE,
        "rule 5": SeedEffect.LEFT_ALONE,
    }
    assert subjects(plan) == ["rule 1", "rule 2", "rule 4"]
    assert "limit: 100 → 200" in plan.table()
    assert "belongs to ui" in plan.table()


def test_a_written_change_is_not_written_again() -> None:
    files = in_files(rule(1, source="git"), rule(2))
    first = seed_plan(files, in_log())
    written = [parse_rule_record(value, SCHEMA, RuleLimits()) for _, value in first.records]
    assert {each.source for each in written} == {"seed"}
    log = in_log(*(dict(each.document) for each in written))
    assert not seed_plan(files, log).to_write


def test_nothing_is_seeded_when_a_file_is_wrong() -> None:
    deletion = ValidatedRecord(
        "9.yaml", parse_rule_record(b'{"ruleId": 9, "ruleState": "DELETE"}', SCHEMA, RuleLimits())
    )
    with pytest.raises(RulesRejected, match="seed files hold rules only"):
        seed_plan([deletion], in_log())


def changed(name: str, operation: str, *values: int, source: str = "seed") -> Document:
    return {
        "listName": name, "listOperation": operation, "listType": "long", "values": list(values), "source": source,
    }  # fmt: skip


def test_each_list_is_created_changed_deleted_or_left() -> None:
    log = timeline(
        changed("changed", "SET", 1, 2),
        changed("same", "SET", 1),
        changed("gone", "SET", 1),
        changed("edited", "SET", 1),
        changed("edited", "ADD", 2, source="ui"),
        changed("theirs", "SET", 7, source="cdc"),
    )
    wanted = {"new": [1], "changed": [2, 3], "same": [1], "edited": [1]}
    seeds = [
        SeedCollection(f"{name}.yaml", name, ListType.LONG, dict.fromkeys(values)) for name, values in wanted.items()
    ]
    found = seed_collections(seeds, log, RuleLimits())
    assert {each.subject: each.effect for each in found} == {
        "list new": SeedEffect.CREATE,
        "list changed": SeedEffect.CHANGE,
        "list same": SeedEffect.UNCHANGED,
        "list gone": SeedEffect.DELETE,
        "list edited": SeedEffect.LEFT_ALONE,
    }
    plan = SeedPlan(seed_plan(in_files(rule(1)), log.latest).changes, found)
    assert subjects(plan) == ["list changed", "list new", "rule 1", "list gone"]
    after = log.extended(
        [read_entry(log.end + i, 9_000, value, SCHEMA, RuleLimits()) for i, (_, value) in enumerate(plan.records)]
    )
    assert not any(entry.reasons for entry in after.entries)
    assert {name: each.values() for name, each in after.lists.items()} == {
        "new": [1], "changed": [2, 3], "same": [1], "edited": [1, 2], "theirs": [7],
    }  # fmt: skip


def test_a_map_is_seeded_like_a_list_of_the_same_name() -> None:
    of_type = MapType(ListType.LONG, MapValueType.DECIMAL)
    types = {"keyType": "long", "valueType": "decimal", "source": "seed"}
    gone = {"mapName": "gone", "mapOperation": "SET", "entries": {"1": "1"}, **types}
    log = timeline(gone, changed("limits", "SET", 1))
    files = in_files(rule(1, when="map('limits', payeeId) > 1"))
    seeds = [
        SeedCollection("maps.yaml", "limits", of_type, {7: 250_000_000}),
        SeedCollection("lists.yaml", "limits", ListType.LONG, {1: None}),
    ]
    found = seed_collections(seeds, log, RuleLimits())
    assert [(each.subject, each.effect) for each in found] == [
        ("list limits", SeedEffect.UNCHANGED),
        ("map gone", SeedEffect.DELETE),
        ("map limits", SeedEffect.CREATE),
    ]
    plan = SeedPlan(seed_plan(files, log.latest).changes, found)
    assert subjects(plan) == ["map limits", "rule 1", "map gone"]
    after = log.extended(
        [read_entry(log.end + i, 9_000, value, SCHEMA, RuleLimits()) for i, (_, value) in enumerate(plan.records)]
    )
    assert {name: each.entries() for name, each in after.maps.items()} == {"limits": {7: 250_000_000}}


def naming(rule_id: int, *named: int, **members: Any) -> Document:
    return rule(rule_id, conditions=[{"ruleId": each} for each in named], source="seed", **members)


def test_a_rule_is_written_after_those_that_it_names_and_deleted_before_them() -> None:
    files = in_files(naming(1, 4), rule(4), rule(5), naming(6, 5))
    plan = seed_plan(files, in_log(rule(2, source="seed"), naming(3, 2)))
    assert subjects(plan) == ["rule 3", "rule 4", "rule 5", "rule 1", "rule 6", "rule 2"]


def subjects(plan: SeedPlan) -> list[str]:
    return [each.subject for each in plan.to_write]
