"""Alerts page by page, also those that only the topics have: each once, newest first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from fraud_control.domain.alert_search import AlertSearch
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.events import FeedAlert
from fraud_control.feed.follower import FeedReader
from fraud_control.feed.memory import FeedMemory, MemoryBounds
from fraud_control.feed.past import MOST_READ, PastAlerts
from fraud_control.feed.place import Position
from fraud_control.service.alerts.listing import AlertList
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from tests.support.control_plane.alerts import alert_json
from tests.support.kafka.own_topics import OwnTopics, own_topics
from tests.support.kafka.state_damage import remove_records
from tests.support.waiting import until

BATCHES, A_BATCH = 60, 10  # more than the first chunk of a search, and than what memory keeps
RARE = 9
KEPT = 25


@pytest.fixture(scope="module")
def topics(broker: Broker, project: Project) -> Iterator[OwnTopics]:
    """Topics for all tests of this file, which only read them. The last test, about retention, has its own."""
    with own_topics(broker, project) as made:
        yield made


@pytest.fixture(scope="module")
def written(topics: OwnTopics) -> list[int]:
    return write(topics)


def write(topics: OwnTopics) -> list[int]:
    """Write alerts, and return their numbers, oldest first. Every seventh is a shadow alert, a correction adds every
    fiftieth, and every hundredth is of a rare rule. Each batch is a Kafka transaction, whose markers occupy offsets."""
    writer = BatchWriter(topics.kafka, f"{topics.prefix}writer")
    writer.open()
    numbers = []
    for batch in range(BATCHES):
        for of in range(0, A_BATCH, 2):  # two alerts share each append time
            pair = [batch * A_BATCH + of + 1, batch * A_BATCH + of + 2]
            writer.write([_record(topics, number) for number in pair])
            numbers += pair
    await_settled(topics.kafka, [topics.names.alerts, topics.names.shadow_alerts, topics.names.alert_corrections])
    return numbers


def _record(topics: OwnTopics, number: int) -> OutRecord:
    text = alert_json(number, RARE if number % 100 == 0 else 1, shadow=number % 7 == 0)
    if number % 50 == 0:
        alert = json.loads(text)
        correction = {"alertId": alert["alertId"], "kind": "ADDED", "correctedAt": 9, "ruleId": alert["ruleId"]}
        return OutRecord(topics.names.alert_corrections, json.dumps({**correction, "alert": alert}).encode(), b"k")
    return OutRecord(topics.names.shadow_alerts if number % 7 == 0 else topics.names.alerts, text, b"k")


@contextmanager
def listed(topics: OwnTopics, project: Project, alerts: int = KEPT, most_read: int = MOST_READ) -> Iterator[AlertList]:
    """The list of a process that has read the topics to their end."""
    memory = FeedMemory(MemoryBounds(alerts=alerts))
    detector = DetectorSettings.load(project.config / "detector.yaml", {})
    follower = FeedReader(topics.kafka, replace(detector, topics=topics.names), memory, lambda events: None, Snoozing)
    follower.start()
    try:
        until(lambda: follower.caught_up, "the feed has read its topics", 180)
        yield AlertList(memory, PastAlerts(topics.kafka, topics.names, most_read), Snoozing)
    finally:
        follower.stop()


def pages(alerts: AlertList, wanted: AlertSearch, limit: int, key: str = "") -> list[list[FeedAlert]]:
    found, before = [], None
    while True:
        page = alerts.page(wanted, before, limit, key)
        assert page.next is None or before is None or page.next < before, "each page makes progress"
        assert (page.searched_to_ms is not None) == (page.next is not None and len(page.alerts) < limit)
        found.append(list(page.alerts))
        if page.next is None:
            assert page.lost == []
            return found
        before = page.next


def numbers(found: list[list[FeedAlert]]) -> list[int]:
    return [int(each.facts.triggering_event.transaction_id) for page in found for each in page]


def in_order(found: list[list[FeedAlert]]) -> bool:
    places: list[Position] = [each.position for page in found for each in page]
    return places == sorted(places, reverse=True)


def test_every_alert_is_listed_once_in_memory_or_not(topics: OwnTopics, project: Project, written: list[int]) -> None:
    for kept in (KEPT, 1, 10_000):
        with listed(topics, project, kept) as alerts:
            found = pages(alerts, AlertSearch(), 37)
            assert in_order(found)
            assert sorted(numbers(found)) == written


def test_a_filter_reaches_as_far_as_the_topics(topics: OwnTopics, project: Project, written: list[int]) -> None:
    with listed(topics, project) as alerts:
        assert sorted(numbers(pages(alerts, AlertSearch(rule_id=RARE), 4))) == [n for n in written if n % 100 == 0]
        shadow = [n for n in written if n % 7 == 0]
        assert sorted(numbers(pages(alerts, AlertSearch(shadow=True), 10))) == shadow
        of_key = [n for n in written if n % 3 == 2]
        assert sorted(numbers(pages(alerts, AlertSearch(), 50, "2"))) == of_key


def test_a_search_is_bounded_and_continues_at_its_end(topics: OwnTopics, project: Project, written: list[int]) -> None:
    with listed(topics, project, most_read=1) as alerts:
        found = pages(alerts, AlertSearch(rule_id=RARE), 50)
        assert len(found) > 1, "one request does not return all alerts"
        assert sorted(numbers(found)) == [n for n in written if n % 100 == 0]


def test_an_old_alert_is_found_by_its_place(topics: OwnTopics, project: Project, written: list[int]) -> None:
    with listed(topics, project) as alerts:
        oldest = pages(alerts, AlertSearch(), 100)[-1][-1]
        name = oldest.facts.alert_id
        assert alerts.alert(name) is None
        assert alerts.alert(name, oldest.position) == oldest
        assert alerts.alert("another", oldest.position) is None
        append_ms, source, offset = oldest.position
        elsewhere = [(append_ms + 1, source, offset), (append_ms, 4, offset), (append_ms, source, 10**9)]
        assert [alerts.alert(name, place) for place in elsewhere] == [None] * 3


def test_a_list_reports_that_retention_removed_older_alerts(broker: Broker, project: Project) -> None:
    with own_topics(broker, project) as own:
        write(own)
        with listed(own, project) as alerts:
            remove_records(own, own.names.alerts, 100)
            page = alerts.page(AlertSearch(), None, 10_000)
            assert page.next is None
            assert page.lost == [own.names.alerts]
        with listed(own, project, 10_000) as alerts:
            assert alerts.page(AlertSearch(shadow=False), None, 10_000).lost == [own.names.alerts]
