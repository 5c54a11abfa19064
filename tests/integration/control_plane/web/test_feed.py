"""The feed's memory and hub: retained events, readers that reconnect, and floods."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from fraud_control.domain.errors import LimitReached, Unavailable
from fraud_control.domain.read_models import Snooze
from fraud_control.domain.snoozing import KnownSnoozing, Snoozing
from fraud_control.feed.counts import MinuteCounts
from fraud_control.feed.events import (
    Event,
    FeedAlert,
    FeedCorrection,
    read_alert,
    read_correction,
    with_snooze,
)
from fraud_control.feed.hub import Hub, HubBounds
from fraud_control.feed.memory import FeedMemory, MemoryBounds
from fraud_control.feed.place import FeedPlace, FeedSource
from fraud_control.watch.flood_guard import FloodWatch
from fraud_control.web.load.rates import Throttle
from fraud_control.web.problems import WebError
from fraud_control.web.stream import AlertEncoder, ServerSentEvents, reserve_seat
from fraud_rules.kafka.decoding import UNDECODABLE
from tests.support.control_plane.alerts import alert, alert_json

MINUTE_MS = 60_000


def retraction(number: int, offset: int) -> FeedCorrection:
    record = {"alertId": alert(number).facts.alert_id, "kind": "RETRACTED", "correctedAt": 9, "ruleId": 1}
    return read_correction(offset, offset, json.dumps(record).encode())


def hub_of(memory: FeedMemory, bounds: HubBounds | None = None) -> Hub:
    return Hub(asyncio.get_running_loop(), memory, ServerSentEvents(AlertEncoder(memory), Snoozing), bounds)


class Reader:
    """A reader of the stream that behaves like a browser."""

    def __init__(self, text: AsyncIterator[bytes]) -> None:
        self.text = text
        self.last_id: str | None = None
        self.events: list[tuple[str, Any]] = []

    async def more(self) -> None:
        for block in (await anext(self.text)).decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            self.last_id = fields.get("id", self.last_id)
            if "data" in fields and fields["event"] != "begin":
                self.events.append((fields["event"], json.loads(fields["data"])))

    async def until(self, count: int) -> None:
        """Read this number of alerts."""
        while len(self.alerts()) < count:
            await self.more()

    def alerts(self) -> list[int]:
        """The transactions of the received alerts, in order."""
        found = []
        for name, data in self.events:
            items = data["items"] if name == "alerts" else [data] if name == "alert" else []
            found += [item["triggeringEvent"]["transactionId"] for item in items]
        return found


async def publish(hub: Hub, memory: FeedMemory, events: Sequence[FeedAlert | FeedCorrection]) -> None:
    """Add and publish events as the topic consumer does."""
    for event in events:
        memory.add(event)
    hub.publish(events)
    await asyncio.sleep(0)


@pytest.mark.anyio
async def test_a_reader_that_reconnects_misses_no_alert() -> None:
    memory = FeedMemory()
    hub = hub_of(memory)
    first = Reader(hub.read(None, 60))
    await first.more()
    await publish(hub, memory, [alert(1), alert(2)])
    await first.more()
    await publish(hub, memory, [alert(3), retraction(2, 0), alert(4)])
    assert first.last_id is not None
    again = Reader(hub.read(FeedPlace.of(first.last_id), 60))
    await again.until(2)
    await again.more()
    await publish(hub, memory, [alert(5)])
    await again.until(3)
    assert first.alerts() + again.alerts() == [1, 2, 3, 4, 5]
    assert [data["kind"] for name, data in again.events if name == "correction"] == ["RETRACTED"]


@pytest.mark.anyio
async def test_a_restarted_server_continues_at_the_position_of_the_reader() -> None:
    """The position consists of offsets of the topics."""
    memory = FeedMemory()
    before = hub_of(memory)
    first = Reader(before.read(None, 60))
    await first.more()
    await publish(before, memory, [alert(number) for number in range(1, 6)])
    await first.more()
    fresh = FeedMemory()
    for number in range(1, 9):
        fresh.add(alert(number))
    after = hub_of(fresh)
    after.publish([alert(8)])
    await asyncio.sleep(0)
    assert first.last_id is not None
    again = Reader(after.read(FeedPlace.of(first.last_id), 60))
    await again.until(3)
    assert again.alerts() == [6, 7, 8]


@pytest.mark.anyio
async def test_a_reader_receives_a_gap_for_discarded_events() -> None:
    memory = FeedMemory(MemoryBounds(alerts=3))
    hub = hub_of(memory)
    since = FeedPlace()
    await publish(hub, memory, [alert(number) for number in range(10)])
    reader = Reader(hub.read(since, 60))
    await reader.more()
    assert reader.events == [("gap", {"from": str(since)})]
    assert reader.last_id is not None and FeedPlace.of(reader.last_id) == hub.place
    newest = [each.facts.triggering_event.transaction_id for each in memory.kept().alerts]
    assert newest == [9, 8, 7]


@pytest.mark.anyio
async def test_a_flood_arrives_in_bundles_and_in_full() -> None:
    memory = FeedMemory()
    hub = hub_of(memory)
    reader = Reader(hub.read(None, 60))
    await reader.more()
    began_s = int(asyncio.get_running_loop().time())
    await publish(hub, memory, [alert(number) for number in range(1_000)])
    await reader.until(1_000)
    seconds = int(asyncio.get_running_loop().time()) - began_s + 1
    assert reader.alerts() == list(range(1_000))
    single = [name for name, _ in reader.events if name == "alert"]
    assert 20 <= len(single) <= 20 * seconds
    assert len(reader.events) - len(single) < 10


@pytest.mark.anyio
async def test_a_slow_reader_receives_the_missed_events_when_it_reads_again() -> None:
    memory = FeedMemory()
    hub = hub_of(memory, HubBounds(frames=2))
    reader = Reader(hub.read(None, 60))
    await reader.more()
    for number in range(10):
        await publish(hub, memory, [alert(number)])
    await reader.until(10)
    assert reader.alerts() == list(range(10))


class Faulty(ServerSentEvents):
    """A memory that cannot encode one event, and that records the threads in which it encodes."""

    def __init__(self, memory: FeedMemory, unwritable: int) -> None:
        super().__init__(AlertEncoder(memory), Snoozing)
        self._unwritable = unwritable
        self.threads: set[str] = set()

    def encode(self, events: Sequence[Event], place: FeedPlace) -> bytes:
        self.threads.add(threading.current_thread().name)
        offsets = [event.offset for event in events if isinstance(event, FeedAlert)]
        if self._unwritable in offsets:
            raise RuntimeError("unforeseen")
        return super().encode(events, place)


@pytest.mark.anyio
async def test_an_event_that_cannot_be_encoded_is_a_gap_and_delays_no_other() -> None:
    memory = FeedMemory()
    hub = Hub(asyncio.get_running_loop(), memory, Faulty(memory, unwritable=2), HubBounds(ping_s=0.01))
    reader = Reader(hub.read(None, 60))
    await reader.more()
    await publish(hub, memory, [alert(1), alert(2), alert(3)])
    await reader.more()
    assert [name for name, _ in reader.events] == ["alert", "gap", "alert"]
    assert reader.alerts() == [1, 3]
    assert await anext(reader.text) == b": ping\n\n", "the reader waits for the next event"


@pytest.mark.anyio
async def test_missed_events_are_encoded_in_pieces_and_outside_the_event_loop() -> None:
    memory = FeedMemory()
    for number in range(5_000):
        memory.add(alert(number))
    writer = Faulty(memory, unwritable=-1)
    hub = Hub(asyncio.get_running_loop(), memory, writer)
    hub.publish([alert(4_999)])
    await asyncio.sleep(0)
    pieces = [text async for text in _until(hub.read(FeedPlace(), 60), 21)]
    assert max(map(len, pieces)) < 400_000 and len(pieces) == 21
    assert all(name.startswith("fraud-control-stream") for name in writer.threads), writer.threads


async def _until(text: AsyncIterator[bytes], count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield await anext(text)


def test_the_last_known_snoozes_apply_while_the_store_does_not_answer() -> None:
    """The feed does not query a failing store again for each alert."""
    answers: list[Snoozing | Exception] = [
        Snoozing([Snooze(id=1, rule_id=1, key=None, until_ms=100, who="ann", reason="", at_ms=0)], 50),
        Unavailable("the database is away"),
        Snoozing(),
    ]
    now_s = [0.0]

    def ask() -> Snoozing:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    known = KnownSnoozing(ask, lambda: now_s[0])
    assert [known().covers(1, {}) for _ in range(4)] == [True, True, True, True]
    now_s[0] = 60.0
    assert not known().covers(1, {})


def test_an_alert_shows_whether_it_was_snoozed_on_arrival() -> None:
    """The event loop never queries the store, neither for an alert nor for an alert that a correction adds."""
    snoozing = Snoozing([Snooze(id=1, rule_id=1, key=None, until_ms=100, who="ann", reason="", at_ms=0)], 50)
    added = json.loads(alert_json(7))
    record = {"alertId": added["alertId"], "kind": "ADDED", "correctedAt": 9, "ruleId": 1, "alert": added}
    correction = with_snooze(read_correction(0, 5, json.dumps(record).encode()), snoozing)
    seen = with_snooze(alert(1), snoozing)

    def never() -> Snoozing:
        raise AssertionError("the event loop asks for snoozes")

    text = ServerSentEvents(AlertEncoder(FeedMemory()), never)
    assert b'"snoozed":true' in text.encode([seen], FeedPlace())
    assert b'"snoozed":true' in text.encode([correction], FeedPlace())


@pytest.mark.anyio
async def test_a_quiet_stream_sends_comments_and_ends_in_time() -> None:
    hub = hub_of(FeedMemory(), HubBounds(ping_s=0.01))
    texts = [text async for text in hub.read(None, 0.05)]
    assert b": ping\n\n" in texts
    assert hub.readers == 0


@pytest.mark.anyio
async def test_a_user_has_a_limited_number_of_streams_and_a_closed_one_frees_its_seat() -> None:
    hub = hub_of(FeedMemory(), HubBounds(readers=3))
    seats = [hub.reserve("vic", 2) for _ in range(2)]
    with pytest.raises(LimitReached, match="2 event streams of yours"):
        hub.reserve("vic", 2)
    assert hub.reserve("ann", 2) is not None
    assert hub.reserve("abe", 2) is None, "the hub is full before the first stream reads"
    assert seats[0] is not None
    for _ in range(2):
        seats[0].release()
    assert hub.reserve("vic", 2) is not None
    assert hub.reserve("abe", 2) is None


@pytest.mark.anyio
async def test_the_refusal_of_a_stream_is_delayed_because_pages_connect_again_at_once() -> None:
    hub, throttle = hub_of(FeedMemory(), HubBounds(readers=2)), Throttle(delay_s=0.2)
    await reserve_seat(hub, throttle, "vic", 1)
    began_s = time.monotonic()
    with pytest.raises(LimitReached):
        await reserve_seat(hub, throttle, "vic", 1)
    await reserve_seat(hub, throttle, "abe", 1)
    with pytest.raises(WebError, match="too many readers"):
        await reserve_seat(hub, throttle, "ann", 1)
    assert time.monotonic() - began_s >= 0.4


def test_text_in_an_alert_cannot_end_its_line() -> None:
    """An alert whose record has several lines, and text that updates like an event of the stream."""
    memory = FeedMemory()
    text = json.dumps(json.loads(alert_json(1, key={"payeeId": "x\nevent: gap\n\n"})), indent=2).encode()
    seen = read_alert(FeedSource.ALERTS, 1, 1, text)
    written = ServerSentEvents(AlertEncoder(memory), Snoozing).encode([seen], FeedPlace())
    name, _, data = written.decode().strip().split("\n")
    assert name == "event: alert"
    assert json.loads(data.removeprefix("data: "))["key"] == {"payeeId": "x\nevent: gap\n\n"}


def test_an_alert_keeps_its_baseline_and_the_versions_of_its_lists() -> None:
    past = {"value": "41.5", "count": 12, "windowStart": -3_600_000, "windowEnd": 0}
    seen = read_alert(FeedSource.ALERTS, 1, 1, alert_json(1, baseline=past, lists={"mules": 7}))
    written = ServerSentEvents(AlertEncoder(FeedMemory()), Snoozing).encode([seen], FeedPlace()).decode()
    shown = json.loads(written.strip().split("\n")[2].removeprefix("data: "))
    assert (shown["baseline"], shown["lists"]) == (past, {"mules": 7})
    for wrong in ({"baseline": {**past, "value": 41.5}}, {"baseline": 3}, {"lists": ["mules"]}):
        with pytest.raises(UNDECODABLE):
            read_alert(FeedSource.ALERTS, 1, 1, alert_json(1, **wrong))


def test_the_memory_has_alerts_that_a_correction_adds() -> None:
    memory = FeedMemory()
    added = json.loads(alert_json(7))
    record = {"alertId": added["alertId"], "kind": "ADDED", "correctedAt": 9, "ruleId": 1, "alert": added}
    memory.add(read_correction(0, 5, json.dumps(record).encode()))
    memory.add(read_correction(1, 6, json.dumps({**record, "kind": "RETRACTED", "alert": None}).encode()))
    assert [(each.source, each.added_ms) for each in memory.alerts()] == [(FeedSource.CORRECTIONS, 9)]
    assert memory.hour(1, 5)[-1] == 0, "it is no news"


def test_an_alert_that_arrives_twice_counts_once() -> None:
    memory = FeedMemory()
    for offset in (1, 2):
        memory.add(read_alert(FeedSource.ALERTS, offset, 1, alert_json(7)))
    assert len(memory.alerts()) == 1
    assert memory.hour(1, 0)[-1] == 1


def test_minutes_are_counted_for_an_hour() -> None:
    counts = MinuteCounts()
    for minute in range(100):
        for _ in range(minute % 3):
            counts.add(7, minute * MINUTE_MS)
    assert counts.hour(7, 99 * MINUTE_MS) == [minute % 3 for minute in range(40, 100)]
    assert counts.hour(8, 99 * MINUTE_MS) == [0] * 60
    assert counts.rate(7, 99 * MINUTE_MS + 30_000) == 0 + 2 * 0.5


def test_a_flood_is_reported_once_and_its_end_once() -> None:
    watch = FloodWatch(alerts_per_minute=10)
    updates: list[tuple[dict[int, float], list[tuple[int, bool]]]] = [
        ({1: 10.0, 2: 3.0}, []),
        ({1: 11.0, 2: 30.0}, [(1, True), (2, True)]),
        ({1: 12.0, 2: 6.0}, []),
        ({1: 7.0, 2: 5.0}, [(2, False)]),
        ({}, [(1, False)]),
        ({1: 11.0}, [(1, True)]),
    ]
    for rates, changes in updates:
        assert [(turn.rule_id, turn.began) for turn in watch.update(rates)] == changes, rates


def test_a_snooze_covers_a_rule_or_one_key_until_its_end() -> None:
    def snooze(rule_id: int, key: dict[str, object] | None, until_ms: int = 100) -> Snooze:
        return Snooze(id=1, rule_id=rule_id, key=key, until_ms=until_ms, who="ann", reason="", at_ms=0)

    snoozing = Snoozing([snooze(1, None), snooze(2, {"payeeId": 5}), snooze(3, None, until_ms=10)], now_ms=50)
    assert snoozing.covers(1, {"payeeId": 9})
    assert snoozing.covers(2, {"payeeId": 5}) and not snoozing.covers(2, {"payeeId": 6})
    assert not snoozing.covers(3, {}) and not snoozing.covers(4, {})
