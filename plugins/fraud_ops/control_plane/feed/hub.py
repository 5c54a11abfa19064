"""Sends events to all readers of the stream. The hub encodes each new event once for all readers.

The hub runs in one event loop and never blocks it: its own threads read and encode the events that a reader missed, one
bundle at a time. Other threads may only call `publish`. Up to 20 alerts a second go out one by one; above that the hub
sends bundles, so that a flood costs readers hardly more than a quiet day.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from fraud_ops.control_plane.feed.events import Event, FeedAlert, FeedBatch, FeedRuleChange
from fraud_ops.control_plane.feed.memory import FeedMemory
from fraud_ops.control_plane.feed.place import FeedPlace, FeedSource

__all__ = ["Hub", "HubBounds", "Writer"]

SINGLE_PER_S = 20
BUNDLE_S = 0.25
_BUNDLED = 250
_PROGRESS_S = 1.0
_THREADS = 2

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class HubBounds:
    """The number of readers, the interval of pings on a quiet stream, and the buffer for slow readers."""

    readers: int = 250
    ping_s: float = 15.0
    frames: int = 4_000
    frame_bytes: int = 33_554_432


@dataclass(frozen=True, slots=True)
class Frame:
    """An encoded event, with the place of a reader after it."""

    number: int
    text: bytes
    place: FeedPlace


class Writer:
    """Encodes events; `place` is the place of a reader after them."""

    def write(self, events: Sequence[Event], place: FeedPlace) -> bytes:
        """Encode events of one kind as one event of the stream. Only alerts may be several."""
        raise NotImplementedError

    def refreshed(self, events: Sequence[Event]) -> Sequence[Event]:
        """Update stored events for a reader that reconnects. May wait for the store."""
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
    """The readers of one event loop, `loop`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        memory: FeedMemory,
        writer: Writer,
        bounds: HubBounds | None = None,
    ) -> None:
        self._loop = loop
        self._memory = memory
        self._writer = writer
        self._bounds = bounds or HubBounds()
        self._place = FeedPlace()
        self._frames: deque[Frame] = deque()
        self._frame_bytes = 0
        self._number = 0
        self._news = asyncio.Event()
        self._pending: list[FeedAlert] = []
        self._flush: asyncio.TimerHandle | None = None
        self._second, self._singles = 0, 0
        self._progress_s = 0.0
        self._closed = False
        self._threads = ThreadPoolExecutor(_THREADS, "fraud-control-stream")
        self.readers = 0

    @property
    def place(self) -> FeedPlace:
        """The place of a reader that has read all events."""
        return self._place

    @property
    def full(self) -> bool:
        """Whether the hub has its largest number of readers."""
        return self.readers >= self._bounds.readers

    def publish(self, events: Sequence[Event]) -> None:
        """Send events to all readers. Any thread may call this."""
        if not self._closed:
            self._loop.call_soon_threadsafe(self._accept, list(events))

    def close(self) -> None:
        """End the streams of all readers. Only the event loop may call this."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._wake()

    async def read(self, since: FeedPlace | None, seconds: float) -> AsyncIterator[bytes]:
        """Yield encoded events for `seconds`: from `since` on, or from now."""
        self.readers += 1
        try:
            until_s = self._loop.time() + seconds
            self._place = self._place.joined(self._memory.floor)
            number, place = self._number, self._place
            async for text in self._missed(since, place):
                yield text
            while not self._closed and self._loop.time() < until_s:
                news = self._news
                behind = self._number - number
                if behind == 0:
                    if not await _within(news, min(self._bounds.ping_s, until_s - self._loop.time())):
                        yield self._writer.ping()
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
            self.readers -= 1

    async def _missed(self, since: FeedPlace | None, until: FeedPlace) -> AsyncIterator[bytes]:
        """Yield the events that a reader missed between two places, in bundles; `since` is None for a new reader."""
        if since is None:
            yield self._writer.begin(until)
            return
        events = await self._in_thread(self._memory.missed, since, until)
        if events is None:
            yield self._writer.gap(since, until)
            return
        place = since
        yield self._writer.begin(since)
        for bundle in _bundles(events):
            if self._closed:
                return
            for event in bundle:
                place = _after(place, event)
            yield await self._in_thread(self._rewritten, bundle, place)
        if since.next[FeedSource.CHANGES] != until.next[FeedSource.CHANGES]:
            yield self._writer.write([FeedRuleChange(until.next[FeedSource.CHANGES] - 1, None, None)], until)

    def _rewritten(self, events: Sequence[Event], place: FeedPlace) -> bytes:
        return self._writer.write(self._writer.refreshed(events), place)

    async def _in_thread(self, work: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
        return await self._loop.run_in_executor(self._threads, partial(work, *given, **named))

    def _accept(self, events: list[Event]) -> None:
        if not self.readers:  # for example while the feed reads old records at the start: encoding would be wasted
            for event in events:
                self._place = _after(self._place, event)
            return
        for event in events:
            if isinstance(event, FeedAlert):
                self._accept_alert(event)
            elif not isinstance(event, FeedBatch):
                self._send([event])
            elif self._loop.time() - self._progress_s >= _PROGRESS_S:
                self._progress_s = self._loop.time()
                self._send([event])
        self._wake()

    def _accept_alert(self, alert: FeedAlert) -> None:
        second = int(self._loop.time())
        if second != self._second:
            self._second, self._singles = second, 0
        self._singles += 1
        if self._singles <= SINGLE_PER_S and not self._pending:
            self._send([alert])
            return
        self._pending.append(alert)
        if len(self._pending) >= _BUNDLED:
            self._send_pending()
        elif self._flush is None:
            self._flush = self._loop.call_later(BUNDLE_S, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        self._send_pending()
        self._wake()

    def _send_pending(self) -> None:
        if self._pending:
            bundle, self._pending = self._pending, []
            self._send(bundle)

    def _send(self, events: Sequence[Event]) -> None:
        place = self._place
        for event in events:
            place = _after(place, event)
        text = self._written(events, place)
        self._place = place
        self._number += 1
        frame = Frame(self._number, text, place)
        self._frames.append(frame)
        self._frame_bytes += len(frame.text)
        while len(self._frames) > self._bounds.frames or self._frame_bytes > self._bounds.frame_bytes:
            self._frame_bytes -= len(self._frames.popleft().text)

    def _written(self, events: Sequence[Event], place: FeedPlace) -> bytes:
        """Encode events; a failure becomes a gap, so that readers request the events again."""
        try:
            return self._writer.write(events, place)
        except Exception:  # noqa: BLE001 -- one event must not end the stream of all others
            _log.exception("%d events cannot be written to the stream", len(events))
            return self._writer.gap(self._place, place)

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def _after(place: FeedPlace, event: Event) -> FeedPlace:
    return place if isinstance(event, FeedBatch) else place.after(event.source, event.offset)


def _bundles(events: Sequence[Event]) -> list[Sequence[Event]]:
    """Group alerts into bundles; each other event is a bundle of its own."""
    alerts = [event for event in events if isinstance(event, FeedAlert)]
    others: list[Sequence[Event]] = [[event] for event in events if not isinstance(event, FeedAlert)]
    return [alerts[i : i + _BUNDLED] for i in range(0, len(alerts), _BUNDLED)] + others


async def _within(news: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await news.wait()
    except TimeoutError:
        return False
    return True
