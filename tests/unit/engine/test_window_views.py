"""The view of a key group is a cache of its log: shared, torn or lost, the answers stay the same."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from shutil import disk_usage

import msgspec
import numpy as np
import pytest

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import fan_out
from fraud_rules.engine.state.chunk_ages import MERGE_WIDTH
from fraud_rules.engine.state.head import Head, decode_head
from fraud_rules.engine.state.store import HeapViews, MappedViews
from fraud_rules.engine.statelog import MemoryStateLog, StateVersion
from fraud_rules.errors import Stalled, StorageFull
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.output import KeyGroupOutput, MarkUpdate
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.runtime.lock_wait import LockPatience
from tests.support.records.decoded import decoded
from tests.support.rules import SCHEMA, rule_log, sum_rule
from tests.support.small_disk import small_disk
from tests.support.streams.packed import RULES, SETTINGS, START_MS, blobs, comparable, run, timeline


@pytest.fixture(scope="module")
def packed() -> list[bytes]:
    return blobs(batches=60, rows=40)


@pytest.fixture(scope="module")
def answers(packed: list[bytes]) -> list[tuple[object, ...]]:
    found = run(packed, MemoryStateLog(), [HeapViews()])
    assert sum(len(alerts) for alerts, *_ in found) > 50
    return found


def head_of(log: MemoryStateLog) -> Head:
    encoded = log.head()
    assert encoded is not None
    return decode_head(encoded)


def test_two_workers_share_mapped_files(packed: list[bytes], answers: list[tuple[object, ...]], tmp_path: Path) -> None:
    assert run(packed, MemoryStateLog(), [MappedViews(tmp_path, SCHEMA), MappedViews(tmp_path, SCHEMA)]) == answers


def test_a_worker_sets_marks_in_files_that_another_one_has_made(packed: list[bytes], tmp_path: Path) -> None:
    """The first batch of a start sets the marks that the last batch before it has changed."""
    log, rules = MemoryStateLog(), timeline()
    first, second = (KeyGroupEngine(0, SCHEMA, SETTINGS, log, MappedViews(tmp_path, SCHEMA)) for _ in range(2))
    before = first.process([packed[0]], rules, 0, 0)
    keys = {(each["beneficiaryId"], each["payeeId"]) for each in alerted(before, rule_id=3)}
    (state,) = (each for each in head_of(log).states if each.fields == ("beneficiaryId", "payeeId"))
    marks = [MarkUpdate(0, state.fields, state.epoch, 2, key, START_MS + 10**9, 5) for key in keys]
    after = second.process([packed[1]], rules, 1, 0, marks=marks)
    assert len(keys) > 1
    assert after.retained_marks >= len(keys)
    assert not [each for each in alerted(after, rule_id=3) if (each["beneficiaryId"], each["payeeId"]) in keys]


def alerted(output: KeyGroupOutput, rule_id: int) -> list[dict[str, int]]:
    """The keys of the alerts of a rule."""
    return [json.loads(each.json)["key"] for each in output.alerts if each.rule_id == rule_id]


def test_a_wait_for_a_view_has_a_limit_and_names_view_and_holder(tmp_path: Path) -> None:
    holder, other = MappedViews(tmp_path, SCHEMA), MappedViews(tmp_path, SCHEMA, LockPatience(0.0, 60.0, 0.1))
    named = rf"process {os.getpid()} has held the view of key group 3"
    with holder.hold(3), pytest.raises(Stalled, match=named), other.hold(3):
        pass
    with other.hold(3):
        pass


LONG_FILTERS = [
    (66, "paymentAmount between {0} and {0}9", RuleLimits()),
    (400, "paymentAmount between {0} and {0}9", RuleLimits(max_filter_chars=40_000, max_filter_tokens=4_000)),
    (1, "(paymentAmount > {0} and (payeeId = 1 or " * 20 + "payeeId = 2" + "))" * 20, RuleLimits(max_filter_depth=40)),
    (1, "paymentAmount < {0}" + "9" * 50, RuleLimits(max_limit_digits=51)),
]


@pytest.mark.parametrize(
    ("terms", "term", "limits"), LONG_FILTERS, ids=["66 between", "400 between", "depth", "digits"]
)
def test_a_worker_opens_a_view_of_another_worker_with_any_valid_filter(
    terms: int, term: str, limits: RuleLimits, tmp_path: Path
) -> None:
    text = " or ".join(term.format(n) for n in range(terms))
    record = sum_rule(groupingKeyNames=RULES[1], limit=300, windowSeconds=10, filter=text)
    rules, settings, log = rule_log([record], limits=limits), replace(SETTINGS, limits=limits), MemoryStateLog()
    workers = [MappedViews(tmp_path, SCHEMA), MappedViews(tmp_path, SCHEMA)]
    found = [
        comparable(KeyGroupEngine(0, SCHEMA, settings, log, workers[batch % 2]).process([blob], rules, batch, 0))
        for batch, blob in enumerate(blobs(batches=4, rows=40, rules=rules))
    ]
    assert sum(len(alerts) for alerts, *_ in found) > 5


def test_workers_without_shared_memory_start_from_the_log(
    packed: list[bytes], answers: list[tuple[object, ...]]
) -> None:
    assert run(packed, MemoryStateLog(), [HeapViews(), HeapViews(), HeapViews()]) == answers


def test_a_lost_view_is_recreated(packed: list[bytes], answers: list[tuple[object, ...]]) -> None:
    log, rules, found = MemoryStateLog(), timeline(), []
    for batch, blob in enumerate(packed):
        engine = KeyGroupEngine(0, SCHEMA, SETTINGS, log, HeapViews())
        found.append(comparable(engine.process([blob], rules, batch, 0)))
    assert found == answers


def test_a_view_torn_by_a_death_is_not_used(
    packed: list[bytes], answers: list[tuple[object, ...]], tmp_path: Path
) -> None:
    """A worker dies after changing the view and before the log is committed: the batch runs again."""

    class Died(Exception):
        pass

    class DyingLog(MemoryStateLog):
        dies = False

        def put_head(self, head: bytes, version: StateVersion) -> None:
            if self.dies:
                raise Died
            super().put_head(head, version)

    log, rules, found = DyingLog(), timeline(), []
    for batch, blob in enumerate(packed):
        if batch % 5 == 3:
            before = dict(log._chunks)
            log.dies = True
            with pytest.raises(Died):
                KeyGroupEngine(0, SCHEMA, SETTINGS, log, MappedViews(tmp_path, SCHEMA)).process([blob], rules, batch, 0)
            log.dies, log._chunks = False, before
        engine = KeyGroupEngine(0, SCHEMA, SETTINGS, log, MappedViews(tmp_path, SCHEMA))
        found.append(comparable(engine.process([blob], rules, batch, 0)))
    assert found == answers


def test_a_full_disk_of_the_views_is_named_and_kills_no_worker(
    packed: list[bytes], answers: list[tuple[object, ...]], tmp_path: Path
) -> None:
    """A write to a mapped hole of a full disk would end this process with SIGBUS."""
    log, rules, found, refused = MemoryStateLog(), timeline(), [], 0
    with small_disk(tmp_path / "disk", "32m"):
        ballast, views = tmp_path / "disk" / "ballast", MappedViews(tmp_path / "disk", SCHEMA)
        for batch, blob in enumerate(packed):
            engine = KeyGroupEngine(0, SCHEMA, SETTINGS, log, views)
            if batch == 2:
                ballast.write_bytes(bytes(disk_usage(tmp_path / "disk").free))
            try:
                output = engine.process([blob], rules, batch, 0)
            except StorageFull as error:
                assert re.search(f"No space left on the disk of the views, .+:{tmp_path}.*views_folder", str(error))
                refused += 1
                ballast.unlink()
                output = engine.process([blob], rules, batch, 0)
            found.append(comparable(output))
    assert refused == 1
    assert found == answers


def test_a_release_with_one_more_field_and_back_changes_no_answer(
    packed: list[bytes], answers: list[tuple[object, ...]], tmp_path: Path
) -> None:
    """The release between groups by its new field too; the one after it has never heard of the field."""
    grown = replace(SCHEMA, fields=(*SCHEMA.fields, Field("channel", FieldType.STRING, nullable=True)))
    by_channel = sum_rule(9, groupingKeyNames=["channel", "payeeId"], limit=1, windowSeconds=10)
    log, rules, found = MemoryStateLog(), timeline(), []
    entry = read_entry(3, 2, json.dumps(by_channel).encode(), grown, SETTINGS.limits)
    alone, between = RuleTimeline([entry]), RuleTimeline([*rules.entries, entry])
    for batch, blob in enumerate(packed):
        if not 20 <= batch < 40:
            engine = KeyGroupEngine(0, SCHEMA, SETTINGS, log, MappedViews(tmp_path, SCHEMA))
            found.append(comparable(engine.process([blob], rules, batch, 0)))
            continue
        engine = KeyGroupEngine(0, grown, SETTINGS, log, MappedViews(tmp_path, grown))
        output = engine.process([blob, app_payments(batch, alone, grown)], between, batch, 0)
        alerts = [alert for alert in output.alerts if alert.rule_id != 9]
        assert len(alerts) < len(output.alerts)
        found.append(comparable(msgspec.structs.replace(output, alerts=alerts, rows=output.rows - 5)))
    assert len(list(tmp_path.glob("layout-*"))) == 1
    assert found == answers


def app_payments(batch: int, rules: RuleTimeline, schema: TransactionSchema) -> bytes:
    """Five payments with a channel, for the groupings of these rules only."""
    at_ms = START_MS + batch * 800 + np.arange(5)
    values = [
        b'{"transactionId":%d,"eventTime":%d,"payeeId":77,"beneficiaryId":1,"paymentType":"CSH","paymentAmount":9.00,'
        b'"channel":"app"}' % (10**9 + batch * 5 + i, at_ms[i])
        for i in range(5)
    ]
    return fan_out(decoded(values, at_ms, 10**6 + batch * 5 + np.arange(5), schema), rules, schema, 1)[0]


def test_the_log_stays_small() -> None:
    """Chunks are merged and expired ones deleted: their number does not grow with the number of batches."""
    log = MemoryStateLog()
    run(blobs(batches=300, rows=10, seed=4), log, [HeapViews()])
    head = head_of(log)
    assert set(log._chunks) == {info.name for info in head.chunks}
    assert len(head.chunks) <= 4 * MERGE_WIDTH
    rows_a_second, retained_s = 50, 12
    assert sum(map(len, log._chunks.values())) < 60 * 2 * 3 * rows_a_second * retained_s * 8
