"""The series of a rule with a resolution: its rows in one key group, which go on counting when H has passed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.oracle.arithmetic import Value
from tests.support.oracle.rules.log import Boundary
from tests.support.oracle.stream import LONG_AGO_MS, Row

KeyedRow = tuple[Row, tuple[Value, ...]]


@dataclass
class Series:
    """The rows retained when the series began, in an epoch and with H as of then, and those accepted since.

    `bound_ms` is B: the running maximum of the start of the oldest window or baseline. `warm_start_ms` is the start of
    the history that a warm-up has added in the epoch.
    """

    epoch: int
    began_at_ms: int
    rows: list[KeyedRow]
    bound_ms: int = LONG_AGO_MS
    warm_start_ms: int | None = None

    def advance(self, oldest_ms: int) -> None:
        """Advance B."""
        self.bound_ms = max(self.bound_ms, oldest_ms)

    def counting(self, h_ms: int) -> list[KeyedRow]:
        """The rows that count: those at or above H, and of those that H has passed the ones at or above B."""
        return [(x, key) for x, key in self.rows if x.event_ms >= h_ms or x.event_ms >= self.bound_ms]

    def start_ms(self, epoch: int, history_start_ms: int, h_ms: int) -> int:
        """The event time at which its history starts. `history_start_ms` is that of its grouping in the epoch."""
        start_ms = history_start_ms
        if epoch == self.epoch:
            start_ms = max(start_ms, self.began_at_ms) if self.warm_start_ms is None else self.warm_start_ms
        return max(start_ms, min(h_ms, self.bound_ms))

    def add_history(
        self, history: Sequence[KeyedRow], from_ms: int, epoch: Boundary, history_start_ms: int | None, h_ms: int
    ) -> None:
        """Add the rows of a warm-up from an event time on, as if appended at the epoch's beginning.

        They were appended before the series began. So of those that H has passed, the series has the ones that were
        retained then. The sums of a series have no ids: an id that H has passed counts again.
        """
        starts = [max(history[0][0].event_ms, from_ms)]
        if history_start_ms is not None:
            starts.append(self.start_ms(epoch.version, history_start_ms, h_ms))
        self.add_retained([each for each in history if each[0].event_ms >= from_ms], epoch, h_ms)
        for row, key in history:
            was_retained = self.began_at_ms != LONG_AGO_MS and row.event_ms >= self.began_at_ms
            if from_ms <= row.event_ms < h_ms and not was_retained:
                self._add(row, key, epoch)
        self.began_at_ms, self.epoch, self.warm_start_ms = LONG_AGO_MS, epoch.version, min(starts)

    def add_retained(self, rows: Sequence[KeyedRow], epoch: Boundary, h_ms: int) -> None:
        """Add the rows of a warm-up at or above H, no id twice."""
        known = {(x.identity, key) for x, key in self.rows if x.append_ms >= epoch.time_ms and x.event_ms >= h_ms}
        for row, key in rows:
            if row.event_ms >= h_ms and (row.identity, key) not in known:
                self._add(row, key, epoch)

    def _add(self, row: Row, key: tuple[Value, ...], epoch: Boundary) -> None:
        row.append_ms, row.rules_seen = max(row.append_ms, epoch.time_ms), epoch.version + 1
        self.rows.append((row, key))
