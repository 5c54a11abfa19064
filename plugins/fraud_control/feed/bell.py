"""Wakes the readers of a hub, a group at a time.

A wake-up of all readers at once would occupy the event loop until each of them has sent its frame, and middleware costs
half a millisecond for each. Requests of others proceed between two groups.
"""

from __future__ import annotations

import asyncio
from typing import Final

_READERS: Final = 20
_APART_S: Final = 0.02


class Group:
    """Some readers that wake together. `news` is set at their next wake-up."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.readers = 0

    def leave(self) -> None:
        """Remove a reader."""
        self.readers -= 1

    def wake(self) -> None:
        """Wake the readers. Their next wake-up has an event of its own."""
        news, self.news = self.news, asyncio.Event()
        news.set()


class Bell:
    """The groups of a hub. Only the event loop may use it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, readers: int = _READERS, apart_s: float = _APART_S) -> None:
        self._loop = loop
        self._most_readers = readers
        self._apart_s = apart_s
        self._groups: list[Group] = []
        self._waiting: list[Group] = []
        self._next: asyncio.TimerHandle | None = None
        self._again = False

    def join(self) -> Group:
        """Add a reader to the first group with a free place. The reader must leave it."""
        group = next((each for each in self._groups if each.readers < self._most_readers), None)
        if group is None:
            group = Group()
            self._groups.append(group)
        group.readers += 1
        return group

    def ring(self) -> None:
        """Wake the first group now, and the others one after the other. A call during such a round starts another
        round after it."""
        if self._next is not None:
            self._again = True
            return
        self._waiting = [each for each in self._groups if each.readers]
        self._wake_one()

    def ring_all(self) -> None:
        """Wake all groups now."""
        for group in self._groups:
            group.wake()

    def _wake_one(self) -> None:
        self._next = None
        if self._waiting:
            self._waiting.pop(0).wake()
        if self._waiting:
            self._next = self._loop.call_later(self._apart_s, self._wake_one)
        elif self._again:
            self._again = False
            self._next = self._loop.call_later(self._apart_s, self._start_again)

    def _start_again(self) -> None:
        self._next = None
        self.ring()
