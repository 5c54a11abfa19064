"""How far somebody has followed the feed: one number for each topic that can be caught up with."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias

__all__ = ["Place", "Position", "Source"]

_TEXT = re.compile(r"[0-9]{1,18}(-[0-9]{1,18}){4}", re.ASCII)

Position: TypeAlias = tuple[int, int, int]
"""Where an alert is among all: the broker's time of it in epoch ms, its source, its offset."""


class Source(IntEnum):
    """Where an event comes from."""

    ALERTS = 0
    SHADOW = 1
    CORRECTIONS = 2
    OPERATIONS = 3
    CHANGES = 4  # the audit log's: what people did to rules


@dataclass(frozen=True, slots=True)
class Place:
    """The next offset to read of each source. As text it is the id of an event."""

    next: tuple[int, ...] = (0,) * len(Source)

    @classmethod
    def of(cls, text: str) -> Place | None:
        """A place from its text; None for any other text."""
        return cls(tuple(map(int, text.split("-")))) if _TEXT.fullmatch(text) else None

    def __str__(self) -> str:
        return "-".join(map(str, self.next))

    def after(self, source: Source, offset: int) -> Place:
        """This place, once that offset is read too."""
        following = max(self.next[source], offset + 1)
        return replace(self, next=(*self.next[:source], following, *self.next[source + 1 :]))

    def joined(self, other: Place) -> Place:
        """Each source as far as the one or the other has got."""
        return Place(tuple(map(max, self.next, other.next)))
