"""Records that are lost before the detector reads them. A start names the loss, and continues if a user accepts it.

The markers are handmade; Kafka is real. A long case has a harm for which another test of this file starts a rebuild.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from fraud_rules.configuration.project import Project
from fraud_rules.engine.statelog import EMPTY_LOG
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign, DetectorStopped, HistoryLost
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.lost_records import LossReason, LostRecords
from fraud_rules.model.output import MarkUpdate
from fraud_rules.stream.checkpoint import mark_parts
from fraud_rules.stream.checkpoint.identity import declared_fields
from fraud_rules.stream.driver import admission
from fraud_rules.stream.driver.admission import check
from fraud_rules.stream.driver.job import RebuildOrder
from fraud_rules.stream.pins import NO_PIN, Pin
from tests.support.kafka.open_transaction import open_transaction
from tests.support.kafka.records import produce
from tests.support.recovery.handmade import READ, THERE, HandmadeSite, handmade_site, later

MARKS = [MarkUpdate(number, ("payeeId",), 0, 1, (number,), 1_700_000_000_000, 2) for number in range(3)]


@pytest.fixture
def site(broker: Broker, project: Project, session: Callable[[], SparkSession]) -> Iterator[HandmadeSite]:
    with handmade_site(broker, project, session) as site:
        yield site


def test_a_release_with_another_number_of_tasks_continues(site: HandmadeSite) -> None:
    before = site.marker()
    admitted = site.start(spark=replace(site.job.spark, tasks=7))
    assert admitted.marker == site.marker()
    assert (admitted.marker.place, admitted.marker.end_offsets) == (before.place, before.end_offsets)
    assert admitted.marker.fields == declared_fields(site.job.schema), "an earlier release wrote none"
    assert site.start().marker == later(admitted.marker)


def test_a_start_waits_for_a_transaction_that_hides_the_newest_marker(site: HandmadeSite) -> None:
    """The visible marker is an older copy, so that the start would be refused."""
    site.write_progress(2, 70)
    assert "the marker is an older copy" in site.refusal(CheckpointDamaged)
    with ThreadPoolExecutor(2) as others:
        with open_transaction(site.topics, site.topics.names.detector_marker):
            site.send(2, 70)
            checked = others.submit(check, site.job)
            started = others.submit(site.start)
            for waiting in (checked, started):
                with pytest.raises(TimeoutError):
                    waiting.result(1.0)
        checked.result(180.0)
        admitted = started.result(180.0)
    assert admitted.marker.batch_id == 2


def test_the_check_of_a_start_is_right_while_the_detector_writes(
    site: HandmadeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress that the check has read must not be newer than the marker, and the marks must be the marker's."""
    monkeypatch.setattr(mark_parts, "PART_BYTES", 1)  # each mark is a part

    def work() -> None:
        for batch in range(2, 14):
            site.send(batch, READ, MARKS[: batch % 4])

    with ThreadPoolExecutor(1) as others:
        working = others.submit(work)
        while not working.done():
            check(site.job)
        working.result()
    admitted = site.start()
    assert (admitted.marker.batch_id, admitted.marks) == (13, MARKS[:1])


def test_a_start_without_the_marks_of_its_marker_is_refused_until_a_rebuild(site: HandmadeSite) -> None:
    site.write(2, READ, MARKS)
    assert site.start().marks == MARKS
    name = f"{site.job.settings.detector}/marks/0"
    produce(site.topics.bootstrap, site.topics.names.detector_marker, [None], key=name.encode())
    assert f"record {name}, which has marks of batch 2, is missing" in site.refusal(CheckpointDamaged)
    admitted = site.start(rebuild=RebuildOrder("order"))
    assert (admitted.marker.place, admitted.marker.mark_parts, admitted.marks) == (site.marker().place, 0, [])


@pytest.mark.parametrize("kept", ["progress", "state"])
def test_a_lost_marker_is_no_first_start(kept: str, site: HandmadeSite) -> None:
    """A first start would write all alerts again."""
    names, detector = site.topics.names, site.job.settings.detector
    site.recreate(names.detector_marker)
    if kept == "state":
        site.recreate(names.detector_progress)
        key = f"{detector}/3/head".encode()
        produce(site.topics.bootstrap, names.detector_state, [b"head"], key=key, partition=0)
        await_settled(site.topics.kafka, [names.detector_state])
    for refused in (check, lambda job: site.start()):
        with pytest.raises(CheckpointDamaged, match=f"has no marker of {detector}.*write all alerts again") as error:
            refused(site.job)
        assert ("fraud detector rebuild" in str(error.value)) == (kept == "progress"), "the way out works"
    if kept == "state":
        with pytest.raises(CheckpointDamaged):
            site.start(rebuild=RebuildOrder("order"))


Harm = Callable[[HandmadeSite], None]


def delete_the_topic(site: HandmadeSite) -> None:
    site.recreate(site.topics.names.detector_marker)


def write_no_json(site: HandmadeSite) -> None:
    detector = site.job.settings.detector.encode()
    produce(site.topics.bootstrap, site.topics.names.detector_marker, [b'{"queryId": "'], key=detector)


def write_an_older_copy(site: HandmadeSite) -> None:
    older = msgspec.structs.replace(site.marker(), batch_id=0, end_offsets=site.ends(30))
    detector = site.job.settings.detector.encode()
    produce(site.topics.bootstrap, site.topics.names.detector_marker, [older.encode()], key=detector)


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(delete_the_topic, marks=pytest.mark.long),
        pytest.param(write_no_json, marks=pytest.mark.long),
        write_an_older_copy,
    ],
)
def test_a_rebuild_without_the_marker_continues_after_the_last_batch(harm: Harm, site: HandmadeSite) -> None:
    before = site.marker()
    harm(site)
    for refused in (check, lambda job: site.start()):
        with pytest.raises(CheckpointDamaged, match="fraud detector rebuild"):
            refused(site.job)
    order = RebuildOrder("order")
    check(replace(site.job, rebuild=order))
    rebuilt = site.start(rebuild=order).marker
    assert (rebuilt.place, rebuilt.end_offsets, rebuilt.rebuild) == (before.place, before.end_offsets, "order")
    assert (rebuilt.topics, rebuilt.fields) == (before.topics, declared_fields(site.job.schema))
    assert site.start().marker == later(rebuilt)


GARBAGE = [
    b"",
    b"{",
    b"[1, 2]",
    b'{"queryId": "q", "batchId": "9", "endOffsets": {}, "rulesEnd": 0}',
    b'{"queryId": "q", "batchId": 9, "endOffsets": {"transactions": {"first": 1}}, "rulesEnd": 0}',
    b'{"queryId": "q", "batchId": 9, "endOffsets": {}, "rulesEnd": 0, "rulesRefused": [[0, 9000000000]]}',
    None,
]


def test_a_rebuild_without_the_marker_ignores_records_that_no_detector_wrote(site: HandmadeSite) -> None:
    before, detector = site.marker(), site.job.settings.detector.encode()
    produce(site.topics.bootstrap, site.topics.names.detector_progress, GARBAGE, key=detector)
    other = json.dumps(site.progress(7, THERE)).encode()
    produce(site.topics.bootstrap, site.topics.names.detector_progress, [other], key=b"another")
    assert site.start().marker.place == before.place, "nor do they matter beside a marker"
    delete_the_topic(site)
    rebuilt = site.start(rebuild=RebuildOrder("order")).marker
    assert (rebuilt.place, rebuilt.end_offsets) == (before.place, before.end_offsets)


def test_a_rebuild_without_the_marker_keeps_the_refusals_of_the_pin(site: HandmadeSite) -> None:
    """The budgets of another time would admit the rejected rule, and past transactions would get further alerts."""
    names, bootstrap = site.topics.names, site.topics.bootstrap
    produce(bootstrap, names.rules, [rule(1), rule(2), rule(3)])
    reports = [{"ruleVersion": version, "batchId": 2, "time": 0, "status": "LIVE"} for version in range(3)]
    reports[1] |= {"status": "REJECTED", "refusedInPin": True, "reasons": [{"field": "limit", "message": "budget"}]}
    produce(bootstrap, names.rule_operations, [json.dumps(each).encode() for each in reports])
    ends = {**site.ends(READ), names.rules: {"0": 3}}
    progress = {**site.progress(2, READ), "endOffsets": ends, "rulesEnd": 3, "rulesRefused": [1]}
    detector = site.job.settings.detector.encode()
    produce(bootstrap, names.detector_progress, [json.dumps(progress).encode()], key=detector)
    delete_the_topic(site)

    admitted = site.start(rebuild=RebuildOrder("order"))

    assert (admitted.marker.pin.rules_end, dict(admitted.marker.pin.reasons())) == (3, {1: []})
    pin = admitted.marker.pin
    with TopicReader(site.topics.kafka, names.rules) as reader:
        log = RuleLog.of(reader, site.job.schema, site.job.settings.limits)
        timeline = log.up_to(pin.rules_end, pin.reasons(), pin.digest)
    assert sorted(timeline.latest.rules) == [1, 3]
    assert pin.reported_end == 3, "all records are reported"


def rule(rule_id: int) -> bytes:
    return f"{rule_id},(active),(payeeId),,(paymentAmount),(SUM),(>),(10),(20)".encode()


def test_a_rebuild_without_the_marker_names_a_rule_log_that_is_another_one(site: HandmadeSite) -> None:
    delete_the_topic(site)
    progress = {**site.progress(2, READ), "rulesEnd": 7}
    detector = site.job.settings.detector.encode()
    produce(site.topics.bootstrap, site.topics.names.detector_progress, [json.dumps(progress).encode()], key=detector)
    with pytest.raises(CheckpointForeign, match=r"read the rule log to offset 7, but .*rules ends at 0"):
        check(replace(site.job, rebuild=RebuildOrder("order")))


def test_a_new_detector_begins_with_a_marker_before_its_first_batch(site: HandmadeSite) -> None:
    """So records that are lost before its first commit are named, too."""
    site.remove_up_to(20)
    site.job = replace(site.job, settings=replace(site.job.settings, detector=f"{site.job.settings.detector}-new"))
    admitted = site.start()
    marker = admitted.marker
    assert (marker.batch_id, marker.pin, marker.end_offsets) == (-1, NO_PIN, site.ends(20))
    assert admitted.state.versions == [EMPTY_LOG] * site.job.settings.key_groups
    assert site.start().marker == later(marker)
    site.remove_up_to(40)
    assert "-0 from 20 to 40: 20 records" in site.refusal()


def test_nothing_is_lost_while_the_next_record_is_there(site: HandmadeSite) -> None:
    site.remove_up_to(READ)
    admitted = site.start(accept_loss=True)
    assert (admitted.new_losses, admitted.marker.lost) == ([], [])


def test_removed_records_are_named_accepted_and_reported(site: HandmadeSite) -> None:
    site.remove_up_to(80)
    refusal = site.refusal()
    assert f"{site.topics.names.transactions}-0 from 60 to 80: 20 records" in refusal
    assert "--accept-loss" in refusal

    admitted = site.start(accept_loss=True)

    lost = [LostRecords(site.topics.names.transactions, 0, 60, 80, LossReason.REMOVED, 20)]
    assert (admitted.new_losses, admitted.marker.lost) == (lost, lost)
    assert site.marker() == admitted.marker
    assert site.marker().end_offsets == site.ends(80)
    again = site.start()
    assert (again.new_losses, again.marker.lost) == ([], lost), "the next batch reports it"


def test_a_second_loss_before_the_first_is_reported_is_added_to_it(site: HandmadeSite) -> None:
    site.remove_up_to(80)
    site.start(accept_loss=True)
    site.remove_up_to(85)
    admitted = site.start(accept_loss=True)
    assert [(each.start, each.end) for each in admitted.marker.lost] == [(60, 80), (80, 85)]


Gone = Callable[[HandmadeSite], None]


def removed(site: HandmadeSite) -> None:
    site.remove_up_to(80)


def recreated(site: HandmadeSite) -> None:
    site.recreate(site.topics.names.transactions)
    produce(site.topics.bootstrap, site.topics.names.transactions, [b"{}"] * 20, partition=0)
    site.remove_up_to(7)


@pytest.mark.parametrize(("gone", "first"), [pytest.param(removed, 80, marks=pytest.mark.long), (recreated, 7)])
def test_a_rebuild_continues_after_the_loss(gone: Gone, first: int, site: HandmadeSite) -> None:
    gone(site)
    site.refusal(HistoryLost, rebuild=RebuildOrder("order"), accept_loss=True)
    options: dict[str, Any] = {"rebuild": RebuildOrder("order", partial=True)}
    site.refusal(**options)

    admitted = site.start(**options, accept_loss=True)

    assert admitted.marker.end_offsets[site.topics.names.transactions]["0"] == first
    assert admitted.marker.lost[0].end == first
    assert site.start(**options).marker == later(admitted.marker)
    if gone is recreated:
        assert admitted.state.versions == [EMPTY_LOG] * site.job.settings.key_groups


def test_the_loss_of_a_recreated_topic_is_named(site: HandmadeSite) -> None:
    recreated(site)
    refusal = site.refusal()
    assert f"{site.topics.names.transactions}-0 from 60: the topic was created again and begins at 7" in refusal
    admitted = site.start(accept_loss=True)
    assert [(each.partition, each.start, each.end) for each in admitted.new_losses] == [(0, 60, 7), (1, 0, 0)]
    assert site.marker().end_offsets == site.ends(7)
    assert site.start().new_losses == []


def test_a_recreated_rule_log_is_never_accepted(site: HandmadeSite) -> None:
    site.recreate(site.topics.names.rules)
    assert "an earlier topic" in site.refusal(CheckpointForeign, accept_loss=True)


def test_a_log_that_ends_before_the_read_offset_is_named(site: HandmadeSite) -> None:
    site.write(2, THERE + 40)
    assert f"from {THERE} to {THERE + 40}: the log ends before" in site.refusal()
    site.start(accept_loss=True)
    assert site.marker().end_offsets == site.ends(THERE)


def test_a_rebuild_is_executed_once(site: HandmadeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    before, order = site.marker(), RebuildOrder("order")
    rebuilt = site.start(rebuild=order).marker
    assert (before.rebuild, rebuilt.rebuild) == (None, "order")
    assert (rebuilt.place, rebuilt.end_offsets) == (before.place, before.end_offsets)

    def fails(*_: object, **__: object) -> None:
        raise AssertionError("the order was executed before")

    monkeypatch.setattr(admission, "replace_state", fails)
    assert site.start(rebuild=order).marker == later(rebuilt)
    assert site.start().marker == later(rebuilt, 2)


def test_a_stop_in_the_rule_log_holds_until_an_explicit_start(site: HandmadeSite) -> None:
    names, detector = site.topics.names, site.job.settings.detector.encode()
    stop = b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL_STOP"}'
    produce(site.topics.bootstrap, names.rules, [stop])
    read = msgspec.structs.replace(site.marker(), pin=Pin(1, 1))
    produce(site.topics.bootstrap, names.detector_marker, [read.encode()], key=detector)
    for _ in range(2):
        with pytest.raises(DetectorStopped, match="at offset 0 of the rule log: start again with --resume"):
            site.start()
    assert site.start(resume=True).marker.resumed_at == 0
    assert site.start().marker.resumed_at == 0, "the stop stays lifted"
