"""The groupings that a worker can map: a rule with one more is refused, with the limit in its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fraud_rules.engine.admission.mapping_limit import LINUX_MAPPINGS, over_mapping_limit, system_mappings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.state.store import MappedViews
from fraud_rules.engine.statelog import MemoryStateLog
from tests.support.rules import SCHEMA
from tests.support.streams.packed import RULES, SETTINGS, blobs, timeline
from tests.unit.engine.admission.test_cpu_budget import A, B, in_force, rule

C = ("paymentType",)


def mappings() -> int:
    return Path("/proc/self/maps").read_text(encoding="ascii").count("\n")


def mapped(folder: Path) -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(str(folder))


def test_a_grouping_state_is_one_mapping(tmp_path: Path) -> None:
    """The other mapping has the key group's stamp."""
    views, log = MappedViews(tmp_path, SCHEMA), MemoryStateLog()
    for batch, blob in enumerate(blobs(batches=5, rows=200)):
        KeyGroupEngine(0, SCHEMA, SETTINGS, log, views).process([blob], timeline(), batch, 0)
    assert mapped(tmp_path) == len(RULES) + 1


@pytest.mark.parametrize(
    ("key_groups", "most"), [(2, 12_632), (64, 394), (512, 49), (4_096, 6)], ids=lambda value: str(value)
)
def test_the_limit_follows_from_the_key_groups(key_groups: int, most: int) -> None:
    """A clear doubles the grouping states, so a grouping counts twice in each key group."""
    room = 15_000 + 2 * key_groups * 2
    assert over_mapping_limit(rule(2, B), in_force(rule(1, A)).groupings, key_groups, room) is None
    reason = over_mapping_limit(rule(3, C), in_force(rule(1, A), rule(2, B)).groupings, key_groups, room)
    assert reason is not None
    assert reason.field == "groupingKeyNames"
    assert f"more than the 2 that a worker can map in {key_groups:,} key groups" in reason.message
    assert "raise vm.max_map_count" in reason.message
    assert (LINUX_MAPPINGS - 15_000) // (2 * key_groups) == most


def test_a_rule_of_a_grouping_in_force_passes_and_force_does_not_help() -> None:
    assert over_mapping_limit(rule(2, A, 5), in_force(rule(1, A)).groupings, 8, 15_000) is None
    assert over_mapping_limit(replace(rule(2, B), force=True), in_force(rule(1, A)).groupings, 8, 15_000) is not None


def test_this_host_allows_a_worker_what_the_limit_reserves() -> None:
    assert system_mappings() > 15_000 > mappings()
