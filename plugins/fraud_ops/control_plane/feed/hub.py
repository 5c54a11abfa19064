"""Passes events to all readers of the stream: a new event becomes text once, however many readers there are.

Everything here happens in one event loop, which nothing here blocks: what a reader has missed is read and written in
threads of the hub, a bundle at a time. Only `publish` may be called from other threads. Up to a number of alerts a
second are sent one by one, above that in bundles, so that a flood costs readers hardly more than a quiet day.
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

from fraud_ops.control_plane.feed.events import AlertSeen, Event, ProgressPassed, RuleTouched
from fraud_ops.control_plane.feed.memory import FeedMemory
from fraud_ops.control_plane.feed.place import Place, Source

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
    """How many may read, how often a quiet stream says that it is alive, and how much text is kept for slow readers."""

    readers: int = 250
    ping_s: float = 15.0
    frames: int = 4_000
    frame_bytes: int = 33_554_432


@dataclass(frozen=True, slots=True)
class Frame:
    """Some text for every reader, and the place of who has read it."""

    number: int
    text: bytes
    place: Place


class Writer:
    """Makes text of events; `place` is where a reader is who has read them."""

    def write(self, events: Sequence[Event], place: Place) -> bytes:
        """One event of the stream for events of one kind; several only of alerts."""
        raise NotImplementedError

    def refreshed(self, events: Sequence[Event]) -> Sequence[Event]:
        """The same events as they are now, for a reader who was away. May wait for the store."""
        raise NotImplementedError

    def gap(self, since: Place, place: Place) -> bytes:
        """What was missed is not here any more."""
        raise NotImplementedError

    def begin(self, place: Place) -> bytes:
        """From where a new reader reads."""
        raise NotImplementedError

    def ping(self) -> bytes:
        """Nothing, so that the connection is seen to be alive."""
        raise NotImplementedError


class Hub:
    """`loop` is the one that serves the readers."""

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
        self._place = Place()
        self._frames: deque[Frame] = deque()
        self._frame_bytes = 0
        self._number = 0
        self._news = asyncio.Event()
        self._pending: list[AlertSeen] = []
        self._flush: asyncio.TimerHandle | None = None
        self._second, self._singles = 0, 0
        self._progress_s = 0.0
        self._closed = False
        self._threads = ThreadPoolExecutor(_THREADS, "fraud-control-stream")
        self.readers = 0

    @property
    def place(self) -> Place:
        """Of who has read everything told so far."""
        return self._place

    @property
    def full(self) -> bool:
        """Whether no more readers can be served."""
        return self.readers >= self._bounds.readers

    def publish(self, events: Sequence[Event]) -> None:
        """Tell everybody; from any thread."""
        if not self._closed:
            self._loop.call_soon_threadsafe(self._take, list(events))

    def close(self) -> None:
        """End every reader's stream; in the event loop."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._wake()

    async def read(self, since: Place | None, seconds: float) -> AsyncIterator[bytes]:
        """Text as it comes, for so long; from `since` on, or from now."""
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

    async def _missed(self, since: Place | None, until: Place) -> AsyncIterator[bytes]:
        """What a reader missed between two places, a bundle at a time; `since` None for a new reader."""
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
        if since.next[Source.CHANGES] != until.next[Source.CHANGES]:
            yield self._writer.write([RuleTouched(until.next[Source.CHANGES] - 1, None, None)], until)

    def _rewritten(self, events: Sequence[Event], place: Place) -> bytes:
        return self._writer.write(self._writer.refreshed(events), place)

    async def _in_thread(self, work: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
        return await self._loop.run_in_executor(self._threads, partial(work, *given, **named))

    def _take(self, events: list[Event]) -> None:
        if not self.readers:  # as when the past is read back: nobody needs the text
            for event in events:
                self._place = _after(self._place, event)
            return
        for event in events:
            if isinstance(event, AlertSeen):
                self._take_alert(event)
            elif not isinstance(event, ProgressPassed):
                self._tell([event])
            elif self._loop.time() - self._progress_s >= _PROGRESS_S:
                self._progress_s = self._loop.time()
                self._tell([event])
        self._wake()

    def _take_alert(self, alert: AlertSeen) -> None:
        second = int(self._loop.time())
        if second != self._second:
            self._second, self._singles = second, 0
        self._singles += 1
        if self._singles <= SINGLE_PER_S and not self._pending:
            self._tell([alert])
            return
        self._pending.append(alert)
        if len(self._pending) >= _BUNDLED:
            self._tell_pending()
        elif self._flush is None:
            self._flush = self._loop.call_later(BUNDLE_S, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        self._tell_pending()
        self._wake()

    def _tell_pending(self) -> None:
        if self._pending:
            bundle, self._pending = self._pending, []
            self._tell(bundle)

    def _tell(self, events: Sequence[Event]) -> None:
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

    def _written(self, events: Sequence[Event], place: Place) -> bytes:
        """The text of events; a gap for events that cannot be written, so that readers ask for them."""
        try:
            return self._writer.write(events, place)
        except Exception:  # noqa: BLE001 -- one event must not end the stream of all others
            _log.exception("%d events cannot be written to the stream", len(events))
            return self._writer.gap(self._place, place)

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def _after(place: Place, event: Event) -> Place:
    return place if isinstance(event, ProgressPassed) else place.after(event.source, event.offset)


def _bundles(events: Sequence[Event]) -> list[Sequence[Event]]:
    """Alerts together, all others by themselves."""
    alerts = [event for event in events if isinstance(event, AlertSeen)]
    others: list[Sequence[Event]] = [[event] for event in events if not isinstance(event, AlertSeen)]
    return [alerts[i : i + _BUNDLED] for i in range(0, len(alerts), _BUNDLED)] + others


async def _within(news: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await news.wait()
    except TimeoutError:
        return False
    return True
