"""A reader's place in the feed: one offset for each topic from which it can catch up."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias

_TEXT = re.compile(r"[0-9]{1,18}(-[0-9]{1,18}){4}", re.ASCII)

Position: TypeAlias = tuple[int, int, int]
"""The position of an alert among all alerts: its append time in epoch ms, its source, its offset."""


class FeedSource(IntEnum):
    """The source of an event."""

    ALERTS = 0
    SHADOW = 1
    CORRECTIONS = 2
    OPERATIONS = 3
    CHANGES = 4  # the audit log: changes of rules


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """The next offset of each source. Its text is the id of an event in the stream."""

    next: tuple[int, ...] = (0,) * len(FeedSource)

    @classmethod
    def of(cls, text: str) -> FeedPlace | None:
        """Parse a place; None for any other text."""
        return cls(tuple(map(int, text.split("-")))) if _TEXT.fullmatch(text) else None

    def __str__(self) -> str:
        return "-".join(map(str, self.next))

    def after(self, source: FeedSource, offset: int) -> FeedPlace:
        """The place after reading that offset too."""
        following = max(self.next[source], offset + 1)
        return replace(self, next=(*self.next[:source], following, *self.next[source + 1 :]))

    def joined(self, other: FeedPlace) -> FeedPlace:
        """The place with the larger offset of each source."""
        return FeedPlace(tuple(map(max, self.next, other.next)))
