"""The alert index follows the topics: each alert once, also after a crash, an unreadable record and new topics."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy import select

from fraud_control.domain.alert_search import AlertSearch
from fraud_control.domain.notification_models import SubscribedEvent, Terms
from fraud_control.domain.snoozing import Snoozing
from fraud_control.service.notifications.intake import AlertNotifications
from fraud_control.store.notification_models import DeliveryRow
from fraud_control.sync.alert_indexer import AlertIndexer
from fraud_ops.notifications import ReceiverKind
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.alerts import alert_json
from tests.support.control_plane.scene import ANN, Scene
from tests.support.kafka.own_topics import OwnTopics, delete_topics
from tests.support.rules import SCHEMA
from tests.support.waiting import until

TOPIC_ROLES = ("alert_corrections", "alerts", "shadow_alerts")


def indexer(scene: Scene, topics: OwnTopics, clock_ms: Callable[[], int] = now_ms) -> AlertIndexer:
    return AlertIndexer(scene.database, topics.kafka, topics.names, SCHEMA, 30, AlertNotifications(30), clock_ms)


def write(topics: OwnTopics, *numbers: int) -> None:
    """Append alerts: multiples of 7 to shadow-alerts, multiples of 5 as a correction."""
    writer = BatchWriter(topics.kafka, f"{topics.prefix}writer")
    writer.open()
    for number in numbers:
        writer.write([_record(topics, number)])
    names = topics.names
    await_settled(topics.kafka, [names.alerts, names.shadow_alerts, names.alert_corrections])


def write_together(topics: OwnTopics, numbers: Iterable[int]) -> None:
    """Append live alerts in one transaction."""
    writer = BatchWriter(topics.kafka, f"{topics.prefix}writer")
    writer.open()
    writer.write([OutRecord(topics.names.alerts, alert_json(number), b"k") for number in numbers])
    await_settled(topics.kafka, [topics.names.alerts])


def position(index: AlertIndexer, topics: OwnTopics) -> int:
    return next(each.position for each in index.readings() if each.topic == topics.names.alerts)


def _record(topics: OwnTopics, number: int) -> OutRecord:
    text = alert_json(number, shadow=number % 7 == 0)
    if number % 5 == 0:
        alert = json.loads(text)
        correction = {"alertId": alert["alertId"], "kind": "ADDED", "correctedAt": 9, "alert": alert}
        return OutRecord(topics.names.alert_corrections, json.dumps(correction).encode(), b"k")
    return OutRecord(topics.names.shadow_alerts if number % 7 == 0 else topics.names.alerts, text, b"k")


def indexed(scene: Scene) -> list[int]:
    found, _ = scene.service.searches.page(AlertSearch(), Snoozing(), None, 1_000)
    return sorted(int(each.alert.facts.triggering_event.transaction_id) for each in found)


@contextmanager
def running(index: AlertIndexer) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=index.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def notified(scene: Scene) -> int:
    """The alerts in the outbox of notifications, with those in summaries."""
    with scene.database.reading() as session:
        rows = session.scalars(select(DeliveryRow)).all()
    return sum(1 if row.type == "alert" else json.loads(row.data)["count"] for row in rows)


def test_it_indexes_each_alert_once(scene: Scene, topics: OwnTopics) -> None:
    service = scene.another(receivers={"desk": ReceiverKind.WEBHOOK})
    service.subscriptions.create(ANN, Terms("Team", "desk", (SubscribedEvent.ALERT,)))
    write(topics, *range(1, 30))
    topics_of_alerts = (topics.names.alerts, topics.names.shadow_alerts)
    for topic in topics_of_alerts:
        writer = BatchWriter(topics.kafka, f"{topics.prefix}other")
        writer.open()
        writer.write([OutRecord(topic, b"\xff", b"k"), OutRecord(topic, b'{"alertId": 7}', b"k")])
    indexer(scene, topics).catch_up()
    assert indexed(scene) == list(range(1, 30))
    with running(indexer(scene, topics)), running(indexer(scene, topics)):
        write(topics, *range(25, 40))
        until(lambda: len(indexed(scene)) == 39, "both processes leave each alert once")
    index = indexer(scene, topics)
    index.catch_up()
    assert indexed(scene) == list(range(1, 40))
    live = [number for number in range(1, 40) if number % 5 and number % 7]
    assert notified(scene) == len(live), "one notification for each live alert, also if two processes read it"
    assert {each.topic for each in index.readings()} == {*topics_of_alerts, topics.names.alert_corrections}


def test_a_change_of_a_user_does_not_wait_for_the_whole_index(scene: Scene, topics: OwnTopics) -> None:
    write_together(topics, range(1, 2_001))
    index = indexer(scene, topics)
    thread = threading.Thread(target=index.catch_up)
    thread.start()
    until(lambda: position(index, topics) > 0, "the first alerts are indexed")
    with scene.database.writing():
        reached = position(index, topics)
    thread.join()
    assert 0 < reached < position(index, topics)


def test_a_new_topic_and_an_old_alert(scene: Scene, topics: OwnTopics) -> None:
    write(topics, 1, 2, 3)
    late = indexer(scene, topics, lambda: now_ms() + 31 * 86_400_000)
    late.catch_up()
    assert indexed(scene) == [], "a new index begins with the alerts that are young enough"
    delete_topics(topics.kafka, topics.declared)
    until(lambda: _recreated(topics), "the topics are there again")
    write(topics, 4)
    index = indexer(scene, topics)
    index.catch_up()
    assert indexed(scene) == [4]
    late.prune()
    assert indexed(scene) == []


def _recreated(topics: OwnTopics) -> bool:
    try:
        topic_admin.apply(topics.kafka, topics.declared)
    except Exception:  # noqa: BLE001 -- the broker may still delete them
        return False
    return True
