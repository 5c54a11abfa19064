"""Sends events to all open pages, its readers. The hub encodes each new event once for all readers.

The hub runs in one event loop and never blocks it. Its own threads read and encode the events that a reader missed.
Other threads may only call `publish`. The hub sends up to 20 alerts a second one by one. Above that it sends bundles of
alerts, so that a flood of alerts does not overload the pages.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from fraud_control.domain.errors import LimitReached
from fraud_control.domain.read_models import RuleChanged
from fraud_control.feed.bell import Bell
from fraud_control.feed.events import Event, FeedAlert, FeedRuleChange
from fraud_control.feed.memory import FeedMemory
from fraud_control.feed.place import FeedPlace, FeedSource

SINGLE_PER_S = 20
"""How many alerts a second the hub sends one by one."""

BUNDLE_S = 0.25
"""How long the hub collects alerts for a bundle."""

_BUNDLE_ALERTS = 250
_THREADS = 2

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class HubBounds:
    """The largest number of readers, the interval of pings on an idle stream, and the size of the buffer of frames. A
    reader that falls behind the buffer reads the missed events from memory.
    """

    readers: int = 250
    ping_s: float = 3.0
    frames: int = 4_000
    frame_bytes: int = 33_554_432


@dataclass(frozen=True, slots=True)
class Frame:
    """One encoded event, or one encoded bundle of alerts. `place` is the place of a reader after it."""

    number: int
    text: bytes
    place: FeedPlace


class Seat:
    """The place of one reader. Its owner must release it."""

    def __init__(self, seats: Counter[str], user: str) -> None:
        self._seats, self._user = seats, user
        self._held = True
        seats[user] += 1

    def release(self) -> None:
        """Free the place; a second call changes nothing."""
        if self._held:
            self._held = False
            self._seats[self._user] -= 1
            if not self._seats[self._user]:
                del self._seats[self._user]


class EventEncoder:
    """Encodes events for the stream; `place` is the place of a reader after them."""

    def encode(self, events: Sequence[Event], place: FeedPlace) -> bytes:
        """Encode one event, or a bundle of alerts, as one event of the stream."""
        raise NotImplementedError

    def refresh(self, events: Sequence[Event]) -> Sequence[Event]:
        """Update the snoozes of stored events for a reader that reconnects. This may wait for the store."""
        raise NotImplementedError

    def gap(self, since: FeedPlace, place: FeedPlace) -> bytes:
        """Encode a gap: memory lacks the events that the reader missed."""
        raise NotImplementedError

    def begin(self, place: FeedPlace) -> bytes:
        """Encode the start of a stream."""
        raise NotImplementedError

    def ping(self) -> bytes:
        """Encode a comment that keeps the connection alive."""
        raise NotImplementedError


class Hub:
    """Sends events to the readers of one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        memory: FeedMemory,
        encoder: EventEncoder,
        bounds: HubBounds | None = None,
    ) -> None:
        self._loop = loop
        self._memory = memory
        self._encoder = encoder
        self._bounds = bounds or HubBounds()
        self._place = FeedPlace()
        self._frames: deque[Frame] = deque()
        self._frame_bytes = 0
        self._number = 0
        self._bell = Bell(loop)
        self._pending: list[FeedAlert] = []
        self._flush: asyncio.TimerHandle | None = None
        self._second, self._singles = 0, 0
        self._closed = False
        self._threads = ThreadPoolExecutor(_THREADS, "fraud-control-stream")
        self._seats: Counter[str] = Counter()
        self.readers = 0

    @property
    def place(self) -> FeedPlace:
        """The place of a reader that has read all events."""
        return self._place

    def reserve(self, user: str, most: int) -> Seat | None:
        """Reserve a place for a new reader; None if the hub accepts no more readers.

        Raises LimitReached if the user already has `most` readers.
        """
        if self._seats.total() >= self._bounds.readers:
            return None
        if self._seats[user] >= most:
            raise LimitReached(f"{self._seats[user]} event streams of yours are open; close a page")
        return Seat(self._seats, user)

    def publish(self, events: Sequence[Event]) -> None:
        """Send events to all readers. Any thread may call this."""
        if not self._closed:
            self._loop.call_soon_threadsafe(self._accept, list(events))

    def close(self) -> None:
        """End the streams of all readers. Only the event loop may call this."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._bell.ring_all()

    async def read(self, since: FeedPlace | None, seconds: float) -> AsyncIterator[bytes]:
        """Yield encoded events for `seconds`: all events after the place `since`, or only new events if it is None."""
        self.readers += 1
        group = self._bell.join()
        try:
            until_s = self._loop.time() + seconds
            self._place = self._place.joined(self._memory.floor)
            number, place = self._number, self._place
            async for text in self._missed(since, place):
                yield text
            while not self._closed and self._loop.time() < until_s:
                news = group.news
                behind = self._number - number
                if behind == 0:
                    if not await _is_set_within(news, min(self._bounds.ping_s, until_s - self._loop.time())):
                        yield self._encoder.ping()
                elif behind > len(self._frames):
                    self._place = self._place.joined(self._memory.floor)
                    since, number, place = place, self._number, self._place
                    async for text in self._missed(since, place):
                        yield text
                else:
                    frames = [self._frames[i] for i in range(len(self._frames) - behind, len(self._frames))]
                    number, place = frames[-1].number, frames[-1].place
                    yield b"".join(frame.text for frame in frames)
        finally:
            group.leave()
            self.readers -= 1

    async def _missed(self, since: FeedPlace | None, until: FeedPlace) -> AsyncIterator[bytes]:
        """Yield the events that a reader missed between two places, in bundles; `since` is None for a new reader."""
        if since is None:
            yield self._encoder.begin(until)
            return
        events = await self._in_thread(self._memory.missed, since, until)
        if events is None:
            yield self._encoder.gap(since, until)
            return
        place = since
        yield self._encoder.begin(since)
        for bundle in _bundles(events):
            if self._closed:
                return
            for event in bundle:
                place = _after(place, event)
            yield await self._in_thread(self._encode_missed, bundle, place)
        if since.next[FeedSource.CHANGES] != until.next[FeedSource.CHANGES]:
            change = FeedRuleChange(until.next[FeedSource.CHANGES] - 1, RuleChanged(None, None))
            yield self._encoder.encode([change], until)

    def _encode_missed(self, events: Sequence[Event], place: FeedPlace) -> bytes:
        return self._encoder.encode(self._encoder.refresh(events), place)

    async def _in_thread(self, work: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
        return await self._loop.run_in_executor(self._threads, partial(work, *arguments, **named))

    def _accept(self, events: list[Event]) -> None:
        if not self.readers:  # for example while the feed reads old records at the start: encoding would be wasted
            for event in events:
                self._place = _after(self._place, event)
            return
        for event in events:
            if isinstance(event, FeedAlert):
                self._accept_alert(event)
            else:
                self._send([event])
        self._bell.ring()

    def _accept_alert(self, alert: FeedAlert) -> None:
        second = int(self._loop.time())
        if second != self._second:
            self._second, self._singles = second, 0
        self._singles += 1
        if self._singles <= SINGLE_PER_S and not self._pending:
            self._send([alert])
            return
        self._pending.append(alert)
        if len(self._pending) >= _BUNDLE_ALERTS:
            self._send_pending()
        elif self._flush is None:
            self._flush = self._loop.call_later(BUNDLE_S, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        self._send_pending()
        self._bell.ring()

    def _send_pending(self) -> None:
        if self._pending:
            bundle, self._pending = self._pending, []
            self._send(bundle)

    def _send(self, events: Sequence[Event]) -> None:
        place = self._place
        for event in events:
            place = _after(place, event)
        text = self._encode(events, place)
        self._place = place
        self._number += 1
        frame = Frame(self._number, text, place)
        self._frames.append(frame)
        self._frame_bytes += len(frame.text)
        while len(self._frames) > self._bounds.frames or self._frame_bytes > self._bounds.frame_bytes:
            self._frame_bytes -= len(self._frames.popleft().text)

    def _encode(self, events: Sequence[Event], place: FeedPlace) -> bytes:
        """Encode events; a failure becomes a gap, so that readers request the events again."""
        try:
            return self._encoder.encode(events, place)
        except Exception:  # noqa: BLE001 -- one faulty event must not end all streams
            _log.exception("%d events cannot be written to the stream", len(events))
            return self._encoder.gap(self._place, place)


def _after(place: FeedPlace, event: Event) -> FeedPlace:
    return place.after(event.source, event.offset)


def _bundles(events: Sequence[Event]) -> list[Sequence[Event]]:
    """Group alerts into bundles; each other event is a bundle of its own."""
    alerts = [event for event in events if isinstance(event, FeedAlert)]
    others: list[Sequence[Event]] = [[event] for event in events if not isinstance(event, FeedAlert)]
    return [alerts[i : i + _BUNDLE_ALERTS] for i in range(0, len(alerts), _BUNDLE_ALERTS)] + others


async def _is_set_within(news: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await news.wait()
    except TimeoutError:
        return False
    return True
