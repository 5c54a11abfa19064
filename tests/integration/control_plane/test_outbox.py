"""The outbox and a real rule log: each change is there once and in order, with any number of publishers."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from sqlalchemy import select, text, update

from fraud_control.domain.errors import NameInUse
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleChanged
from fraud_control.service.audit import AuditFilter
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.database import Database
from fraud_control.store.facts import store_id
from fraud_control.store.leases import LeadershipRow
from fraud_control.store.models import OutboxRow
from fraud_control.sync.background import Background
from fraud_control.sync.drift import DriftCheck
from fraud_control.sync.mirror import SEQ_HEADER, STORE_HEADER, log_mirror
from fraud_control.sync.outbox import Publisher
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import RuleLogForeign
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.kafka.takeovers import MOST_TAKEOVERS
from fraud_rules.kafka.writer import BatchWriter, OutRecord, keep_until_exit
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.proof.audit import AUDIT_HEADER
from tests.support.control_plane.hostile import HOSTILE
from tests.support.control_plane.processes import PublisherProcess
from tests.support.control_plane.scene import ADA, ANN, RULE, Scene, rule_input
from tests.support.kafka.own_topics import OwnTopics, delete_topics
from tests.support.rules import LIMITS, SCHEMA
from tests.support.waiting import until


def access(scene: Scene) -> StoreAccess:
    """The access of another process."""
    return scene.another().store


def publisher(scene: Scene, topics: OwnTopics) -> Publisher:
    rules = topics.names.rules
    mirror = log_mirror(access(scene), topics.kafka, rules)
    return Publisher(access(scene), topics.kafka, rules, mirror, scene.notified.append)


@contextmanager
def running(*runners: Any) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=each.run, args=(stop,)) for each in runners]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def in_log(topics: OwnTopics) -> list[dict[str, Any]]:
    await_settled(topics.kafka, [topics.names.rules])
    with TopicReader(topics.kafka, topics.names.rules) as reader:
        return [json.loads(record.value or b"") for record in reader.read(*reader.ends())]


def all_published(scene: Scene) -> bool:
    return scene.service.outbox().pending == 0


def waiting(scene: Scene, topics: OwnTopics) -> list[OutRecord]:
    """The records of the outbox that no publisher has marked yet, in the form that a publisher writes."""
    store = store_id(scene.database).encode()
    asked = select(OutboxRow).where(OutboxRow.log_version.is_(None)).order_by(OutboxRow.seq)
    with scene.database.reading() as session:
        return [
            OutRecord(
                topics.names.rules,
                row.value,
                row.key,
                [(STORE_HEADER, store), (SEQ_HEADER, str(row.seq).encode()), (AUDIT_HEADER, row.audit.encode())],
            )
            for row in session.scalars(asked)
        ]


def changes(scene: Scene, count: int, rule_id: int = 1) -> None:
    """Create a SHADOW rule and edit it `count` times."""
    detail = scene.service.create(ANN, rule_input(ruleId=rule_id))
    detail = scene.service.change_state(ANN, rule_id, detail.row.revision, StateName.SHADOW)
    for limit in range(100, 99 + count):
        detail = scene.service.edit(ANN, rule_id, detail.row.revision, rule_input(limit=limit))


def test_a_publisher_ends_if_another_store_publishes_with_its_name_again_and_again(
    scene: Scene, topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    process = PublisherProcess(project, topics, scene.settings.database, tmp_path / "publisher.log")
    changes(scene, 1)
    process.start()
    try:
        for limit in range(1, MOST_TAKEOVERS + 1):
            until(lambda: all_published(scene), "it publishes after a takeover")
            BatchWriter(topics.kafka, f"{topics.prefix}control").open()
            scene.service.edit(ANN, 1, scene.service.rule(1).row.revision, rule_input(limit=limit))
        until(lambda: process.exit_code() is not None, "it has ended")
        assert process.exit_code() == NameInUse.exit_code
    finally:
        process.kill()
    assert "another control plane with the name" in process.log.read_text()
    assert scene.service.outbox().pending == 1, "the change waits"


def test_changes_arrive_once_in_order_at_the_offsets_in_the_store(scene: Scene, topics: OwnTopics) -> None:
    changes(scene, 5)
    mine = publisher(scene, topics)
    scene.service.listen(mine.wake)
    with running(mine):
        until(lambda: all_published(scene), "the outbox is empty")
        changes(scene, 3, rule_id=2)
        until(lambda: all_published(scene), "the outbox is empty again")
    assert [(each["ruleId"], each["limit"]) for each in in_log(topics)] == [
        (1, 20), (1, 100), (1, 101), (1, 102), (1, 103), (2, 20), (2, 100), (2, 101),
    ]  # fmt: skip
    with TopicReader(topics.kafka, topics.names.rules) as reader:
        timeline = RuleLog.of(reader, SCHEMA, LIMITS).up_to(reader.ends()[1], {})
    for rule_id in (1, 2):
        assert scene.service.rule(rule_id).row.log_version == timeline.latest.rules[rule_id].version
    assert scene.service.revisions(2).items[0].log_version == timeline.entries[-1].version
    assert RuleChanged(2, 4) in scene.notified


def test_a_new_publisher_does_not_send_records_that_arrived_before_the_last_one_died(
    scene: Scene, topics: OwnTopics
) -> None:
    changes(scene, 3)
    mine = publisher(scene, topics)
    first = BatchWriter(topics.kafka, scene.settings.name)
    first.open()
    first.write(waiting(scene, topics)[:2])
    with running(mine):
        until(lambda: all_published(scene), "the outbox is empty")
    assert [each["limit"] for each in in_log(topics)] == [20, 100, 101]


def test_a_new_publisher_aborts_the_open_transaction_of_the_last_one(scene: Scene, topics: OwnTopics) -> None:
    changes(scene, 2)
    mine = publisher(scene, topics)
    zombie = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": scene.settings.name})
    keep_until_exit(zombie)
    zombie.init_transactions(10)
    zombie.begin_transaction()
    left = waiting(scene, topics)[0]
    zombie.produce(left.topic, left.value, left.key, headers=list(left.headers))
    zombie.flush()
    with running(mine):
        until(lambda: all_published(scene), "the outbox is empty")
        with pytest.raises(KafkaException):
            zombie.commit_transaction(10)
    assert [each["limit"] for each in in_log(topics)] == [20, 100]


def test_two_publishers_send_each_record_once(scene: Scene, topics: OwnTopics) -> None:
    first, second = publisher(scene, topics), publisher(scene, topics)
    with running(first, second):
        changes(scene, 20)
        until(lambda: all_published(scene), "the outbox is empty")
    assert [each["limit"] for each in in_log(topics)] == [20, *range(100, 119)]


def test_store_and_log_agree_and_drift_is_reported(scene: Scene, topics: OwnTopics) -> None:
    mirror = log_mirror(access(scene), topics.kafka, topics.names.rules)
    check = DriftCheck(scene.database, topics.kafka, topics.names.rules, SCHEMA, LIMITS)
    others = json.dumps({**RULE, "ruleId": 7, "ruleState": "ACTIVE", "source": "cli"}).encode()
    append_records(topics.kafka, topics.names.rules, [(b"7", others)])
    unread = check.read()
    assert (unread.in_sync, unread.behind, unread.differences) == (False, 1, ())
    assert unread.behind_since_ms is not None
    with running(publisher(scene, topics), mirror):
        changes(scene, 3)
        until(
            lambda: scene.service.rules(query="7").items and all_published(scene),
            "the store has the other writer's rule",
        )
        until(lambda: check.read().in_sync, "the store has applied the whole log without transaction markers")
    with scene.database.writing() as session:
        session.execute(text("UPDATE items SET document = replace(document, '20', '21') WHERE item_key = '7'"))
    assert [str(each.item) for each in check.read().differences] == ["rule 7"]


def test_a_user_saves_amid_a_burst_of_list_changes(scene: Scene, topics: OwnTopics) -> None:
    """And the drift check compares the lists."""
    mirror = log_mirror(access(scene), topics.kafka, topics.names.rules)
    check = DriftCheck(scene.database, topics.kafka, topics.names.rules, SCHEMA, LIMITS)
    count = 1_000
    first = b'{"listName": "mules", "listOperation": "SET", "listType": "long", "values": [], "source": "cli"}'
    added = [
        b'{"listName": "mules", "listOperation": "ADD", "values": [%d], "source": "cli"}' % at for at in range(count)
    ]
    append_records(topics.kafka, topics.names.rules, [(b"list:mules", value) for value in (first, *added)])
    with running(mirror):
        until(lambda: scene.service.lists.rows(), "the mirror has begun")
        scene.service.create(ANN, rule_input(ruleId=1))
        until(lambda: scene.service.lists.detail("mules").size == count, "the mirror has applied every change")
        until(lambda: check.read().in_sync, "the store is in sync")
    (saved,) = scene.service.audit_rows(AuditFilter(rule_id=1)).items
    assert saved.seq < scene.service.audit_rows(limit=1).items[0].seq
    assert scene.service.verify_audit().whole
    with scene.database.writing() as session:
        session.execute(text("UPDATE item_revisions SET payload = :other WHERE revision = 2"), {"other": b"[9999]"})
    again = DriftCheck(scene.database, topics.kafka, topics.names.rules, SCHEMA, LIMITS)
    assert [str(each.item) for each in again.read().differences] == ["list mules"]


def test_unreadable_records_of_other_programs_block_nothing(scene: Scene, topics: OwnTopics) -> None:
    """Also after a restart, when the publisher and the mirror read the rule log from their last positions."""
    detector = DetectorSettings(topics=topics.names)
    others = json.dumps({**RULE, "ruleId": 7, "ruleState": "ACTIVE", "source": "cli"}).encode()
    row = {"rule_id": 5, "rule_state": "ACTIVE", **{_snake(name): value for name, value in RULE.items()}}
    append_records(topics.kafka, topics.names.rules, [(b"1", value) for value in HOSTILE.values()] + [(b"7", others)])
    changed = json.dumps({"op": "c", "before": None, "after": row}).encode()
    append_records(
        topics.kafka, topics.names.rules_cdc, [(b"1", value) for value in HOSTILE.values()] + [(b"5", changed)]
    )
    changes(scene, 2)
    background = Background(scene.store, topics.kafka, detector)
    background.start()
    try:
        until(lambda: all_published(scene) and scene.service.rules(query="7").items, "both directions work")
        until(lambda: scene.service.rules(query="5").items and all_published(scene), "the rule table works")
        assert background.failures() == {}
    finally:
        background.stop()


def test_the_publisher_works_when_the_mirror_fails(
    scene: Scene, topics: OwnTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in the intake of other writers' records must not prevent a pause of a rule."""

    def fails(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("fraud_control.sync.mirror._apply_record", fails)
    append_records(topics.kafka, topics.names.rules, [(b"7", b"{}")])
    changes(scene, 2)
    with running(publisher(scene, topics)):
        until(lambda: all_published(scene), "the outbox is empty")


def test_a_change_of_the_rule_table_reaches_the_log(scene: Scene, topics: OwnTopics) -> None:
    row = {"rule_id": 5, "rule_state": "ACTIVE", **{_snake(name): value for name, value in RULE.items()}}
    envelope = {"payload": {"op": "c", "before": None, "after": row}}
    detector = DetectorSettings(topics=topics.names)
    background = Background(scene.store, topics.kafka, detector)
    background.start()
    try:
        append_records(topics.kafka, topics.names.rules_cdc, [(b"5", json.dumps(envelope).encode())])
        until(lambda: in_log(topics), "it is in the log")
        until(lambda: all_published(scene), "the store has the whole rule log")
        assert background.failures() == {}
    finally:
        background.stop()
    assert [(each["ruleId"], each["ruleState"], each["source"]) for each in in_log(topics)] == [(5, "ACTIVE", "cdc")]


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda upper: "_" + upper[0].lower(), name)


def test_another_rule_log_is_refused(scene: Scene, topics: OwnTopics) -> None:
    changes(scene, 2)
    first = log_mirror(access(scene), topics.kafka, topics.names.rules)
    with running(publisher(scene, topics), first):
        until(lambda: all_published(scene) and first.position() > 1, "the outbox is empty, and the store knows the log")
    rules = [each for each in topics.declared if each.name == topics.names.rules]
    delete_topics(topics.kafka, rules)
    topic_admin.apply(topics.kafka, rules)
    mirror = log_mirror(access(scene), topics.kafka, topics.names.rules)
    with pytest.raises(RuleLogForeign, match="drift"):
        mirror.catch_up()


def test_a_restored_copy_of_the_store_catches_up_with_the_log_and_continues(
    scene: Scene, topics: OwnTopics, tmp_path: Path
) -> None:
    with running(publisher(scene, topics)):
        changes(scene, 2)
        until(lambda: all_published(scene), "the outbox is empty")
        backup(scene, tmp_path / "copy.db")
        changes(scene, 3, rule_id=2)
        until(lambda: all_published(scene), "the outbox is empty again")
    restored = Scene(Database.open(f"sqlite:///{tmp_path / 'copy.db'}"), scene.settings, scene.clock)
    with restored.database.writing() as session:
        session.execute(update(LeadershipRow).values(until_ms=0))  # the copy is older than a lease
    check = DriftCheck(restored.database, topics.kafka, topics.names.rules, SCHEMA, LIMITS)
    with running(publisher(restored, topics), log_mirror(access(restored), topics.kafka, topics.names.rules)):
        until(lambda: check.read().in_sync, "the restored store has the changes since the copy")
        detail = restored.service.rule(2)
        restored.service.edit(ANN, 2, detail.row.revision, rule_input(limit=500))
        until(lambda: all_published(restored) and check.read().in_sync, "the outbox of the restored store is empty")
    assert [each["limit"] for each in in_log(topics)] == [20, 100, 20, 100, 101, 500]
    restored.database.close()


def backup(scene: Scene, copy: Path) -> None:
    """Copy the SQLite file of a store, with the changes that are still in its log."""
    with scene.database.reading() as session:
        _, _, file = session.execute(text("PRAGMA database_list")).one()
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def test_the_command_publishes_checks_and_reports(
    scene: Scene, topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    process = PublisherProcess(project, topics, scene.settings.database, tmp_path / "publisher.log")
    changes(scene, 3)
    scene.service.control(ADA, "EXPORT_RULES_CURRENT")
    assert process.run("outbox").out.startswith("4 waiting, the oldest for")
    process.start()
    try:
        until(lambda: all_published(scene), "the outbox is empty")
    finally:
        process.kill()
    assert "in sync" in process.run("drift").out
    verified = process.run("verify", "--log")
    assert verified.out.startswith("intact: 5 rows, 4 confirmed by the rule log"), verified.err

    with scene.database.writing() as session:
        session.execute(text("DROP TRIGGER audit_no_delete"))
        session.execute(text("DELETE FROM audit WHERE seq = 5"))
    assert process.run("verify").exit_code == 0
    cut = process.run("verify", "--log")
    assert (cut.exit_code, "names row 5" in cut.err) == (38, True)

    with scene.database.writing() as session:
        session.execute(text("DROP TRIGGER audit_no_update"))
        session.execute(text("UPDATE audit SET who = 'bob' WHERE seq = 2"))
    altered = process.run("verify")
    assert (altered.exit_code, altered.err) == (38, "the audit log is broken at row 2 of 4")
