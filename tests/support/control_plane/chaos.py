"""Kills of servers and brokers while writers change rules, and the conditions that must hold at the end."""

from __future__ import annotations

import itertools
import random
from typing import Protocol

from sqlalchemy import func, select

from fraud_control.domain.canonical import canonical, decoded
from fraud_control.store.models import OutboxRow, RevisionRow
from fraud_control.sync.drift import compare, store_side
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.logs.rule_log import RuleLog
from tests.support.control_plane.scene import Scene
from tests.support.kafka.own_topics import OwnTopics
from tests.support.rules import LIMITS, SCHEMA
from tests.support.waiting import until

PATIENCE_S = 600.0


def saved(scene: Scene) -> int:
    """Count the saved revisions."""
    with scene.database.reading() as session:
        return session.scalar(select(func.count()).select_from(RevisionRow)) or 0


class KillableServer(Protocol):
    """A server that a test can kill."""

    def start(self) -> None: ...
    def kill(self) -> None: ...


def survive(scene: Scene, broker: Broker, server: KillableServer, total: int, kills: int, seed: int) -> None:
    """Kill the server, the broker, or both at random moments while the writers change rules."""
    chance = random.Random(seed)
    victims = itertools.cycle([("server",), ("broker",), ("server", "broker")])
    for number, victim in zip(range(1, kills + 1), victims, strict=False):
        reached = total * number // (kills + 1) + chance.randrange(total // (2 * kills + 2))
        until(lambda reached=reached: saved(scene) >= reached, f"change {reached} (seed {seed})", PATIENCE_S)  # type: ignore[misc]
        if "broker" in victim:
            broker.kill()
        if "server" in victim:
            server.kill()
        if "broker" in victim:
            broker.start()
        if "server" in victim:
            server.start()
    until(lambda: saved(scene) >= total and scene.service.outbox().pending == 0, f"the end (seed {seed})", PATIENCE_S)


def records_of(kafka: KafkaConnection, topic: str) -> list[Record]:
    with TopicReader(kafka, topic) as reader:
        return list(reader.read(*reader.ends()))


def check_final_state(scene: Scene, topics: OwnTopics, total: int) -> None:
    """Check every condition that must hold at the end."""
    await_settled(topics.kafka, [topics.names.rules])
    records = records_of(topics.kafka, topics.names.rules)
    with scene.database.reading() as session:
        sent = session.scalars(select(OutboxRow).order_by(OutboxRow.seq)).all()
        revisions = session.scalars(select(RevisionRow).order_by(RevisionRow.item_key, RevisionRow.revision)).all()
        store = store_side(session, scene.store.contents)
    assert len(revisions) == total
    assert [(row.log_version, row.key, row.value) for row in sent] == [
        (record.offset, record.key, record.value) for record in records
    ]
    by_rule = {each: list(of) for each, of in itertools.groupby(revisions, lambda row: int(row.item_key))}
    for rule_id, of_rule in by_rule.items():
        assert [row.revision for row in of_rule] == list(range(1, len(of_rule) + 1)), rule_id
        wanted = [(row.log_version, canonical(decoded(row.document))) for row in of_rule if row.state != "DRAFT"]
        here = [each for each in records if each.key == str(rule_id).encode()]
        assert wanted == [(each.offset, canonical(decoded(each.value or b""))) for each in here], rule_id
    with TopicReader(topics.kafka, topics.names.rules) as reader:
        timeline = RuleLog.of(reader, SCHEMA, LIMITS).up_to(reader.ends()[1], {})
    assert compare(store, timeline) == ()
    assert set(timeline.latest.rules) == set(by_rule)
    verdict = scene.service.verify_audit()
    assert (verdict.whole, verdict.rows) == (True, total)
