"""The rows that each grouping retains: watermark, retention bound (H), clears, and the histories that warm-ups add.

These docstrings record decisions that the specification leaves open: `Retention.connected`,
`Retention.add_history`, `Retention._begin_history`, `RetainedRow`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.arithmetic import Value
from tests.support.oracle.key_groups import key_group
from tests.support.oracle.rules.entities import Entity, entity_of, rows_of
from tests.support.oracle.rules.log import ActiveRule, Boundary, FoldedRules, LogEntry, fold
from tests.support.oracle.rules.rule import Rule
from tests.support.oracle.series import Series
from tests.support.oracle.stream import LONG_AGO_MS, Grouping, Row, WarmUp, unscaled

Key = tuple[Value, ...]
Place = tuple[int, Grouping]
"""A key group and a grouping."""


@dataclass
class Bounds:
    """Watermark and retention bound (H) of one key group and one incarnation of a grouping: both survive a clear."""

    watermark_ms: int = LONG_AGO_MS
    retained_from_ms: int = LONG_AGO_MS


@dataclass(frozen=True)
class RetainedRow:
    """An accepted row, and the bounds of the incarnation that accepted it.

    A row that this incarnation's H has dropped stays dropped. The evaluating incarnation has another H only if a pin
    hid from the row's batch that the grouping had ended and started again before the row was appended.
    """

    row: Row
    bounds: Bounds

    @property
    def is_retained(self) -> bool:
        return self.row.event_ms >= self.bounds.retained_from_ms


@dataclass
class History:
    """The past of one key group and grouping: its accepted rows in arrival order with their keys, also those that H has
    passed since."""

    rows: list[tuple[Row, tuple[Value, ...]]] = field(default_factory=list)
    bounds: Bounds = field(default_factory=Bounds)

    def accept(self, row: Row, key: tuple[Value, ...]) -> bool:
        """Accept a row that is neither a duplicate of a retained row nor below H. Returns whether it moves H."""
        from_ms = self.bounds.retained_from_ms
        if any(x.identity == row.identity and of_x == key and x.event_ms >= from_ms for x, of_x in self.rows):
            return False
        if row.event_ms >= from_ms:
            self.rows.append((row, key))
        return True


class Retention:
    """Keeps every accepted row, and says which of them a grouping still retains."""

    def __init__(
        self,
        schema: TransactionSchema,
        entities: Sequence[Entity],
        log: Sequence[LogEntry],
        key_groups: int,
        max_out_of_orderness_ms: int,
    ) -> None:
        self.standings = [fold(log[:count]) for count in range(len(log) + 1)]
        self._schema = schema
        self._entities = entities
        self._log = log
        self._key_groups = key_groups
        self._max_out_of_orderness_ms = max_out_of_orderness_ms
        self._accepted: dict[Place, list[RetainedRow]] = {}
        self._of_key: dict[tuple[Place, Key], list[RetainedRow]] = {}
        self._history_starts: dict[tuple[Place, int], int] = {}
        self._bounds: dict[tuple[Place, int], Bounds] = {}
        self._series: dict[tuple[Place, int], Series] = {}

    def place(self, grouping: Grouping, key: Sequence[Value]) -> Place:
        """The key group of a key by the documented hash, and the grouping."""
        if self._key_groups == 1:
            return 0, grouping
        hashed = [self._hashable(name, value) for name, value in zip(grouping, key, strict=True)]
        return key_group(grouping, hashed, self._key_groups), grouping

    def rows_in(self, row: Row, grouping: Grouping) -> list[Row]:
        """The rows of a transaction in a grouping."""
        return rows_of(row, entity_of(grouping, self._entities))

    def bounds(self, place: Place, folded: FoldedRules) -> Bounds:
        """Watermark and H of the current incarnation of the grouping."""
        return self._bounds.setdefault((place, folded.incarnation(place[1])), Bounds())

    def retained(self, place: Place, key: Key, e: Row, bounds: Bounds) -> list[Row]:
        """The rows of the key that are retained and that no boundary separates from `e`, in order of arrival."""
        return [
            kept.row
            for kept in self._of_key.get((place, key), [])
            if kept.row.event_ms >= max(bounds.retained_from_ms, kept.bounds.retained_from_ms)
            and self.connected(kept.row, e, place[1])
        ]

    def add(self, place: Place, key: Key, row: Row, folded: FoldedRules) -> None:
        """Retain a row, unless it is below H. No window counts such a row, and a later delivery is no duplicate."""
        bounds = self.bounds(place, folded)
        if row.event_ms < bounds.retained_from_ms:
            return
        accepted = self._accepted.setdefault(place, [])
        accepted.append(RetainedRow(row, bounds))
        self._of_key.setdefault((place, key), []).append(accepted[-1])
        for (of_place, _), series in self._series.items():
            if of_place == place:
                series.rows.append((row, key))
        epoch = folded.epoch(place[1])
        if (place, epoch) not in self._history_starts:
            self._begin_history(accepted, row, (place, epoch))

    def history_start_ms(self, place: Place, folded: FoldedRules) -> int:
        """The event time at which the retained history starts."""
        start_ms = self._history_starts[place, folded.epoch(place[1])]
        return max(start_ms, self.bounds(place, folded).retained_from_ms)

    def begin_series(self, place: Place, folded: FoldedRules, version: int | None = None) -> None:
        """Begin the series that have begun since the last transaction of the key group, with the retained rows. With a
        version, only its series."""
        bounds = self.bounds(place, folded)
        for in_force in folded.of(place[1]):
            if version is not None and in_force.series != version:
                continue
            if in_force.rule.long_window is not None and (place, in_force.series) not in self._series:
                rows = [
                    (kept.row, key)
                    for (of_place, key), of_key in self._of_key.items()
                    for kept in of_key
                    if of_place == place and kept.is_retained and kept.row.event_ms >= bounds.retained_from_ms
                ]
                self._series[place, in_force.series] = Series(folded.epoch(place[1]), bounds.retained_from_ms, rows)

    def series_rows(self, place: Place, key: Key, e: Row, in_force: ActiveRule, h_ms: int) -> list[Row]:
        """The rows of the key that count in the rule's series and that no boundary separates from `e`."""
        rows = self._series[place, in_force.series].counting(h_ms)
        return [x for x, of_x in rows if of_x == key and self.connected(x, e, place[1])]

    def series_start_ms(self, place: Place, in_force: ActiveRule, folded: FoldedRules) -> int:
        """The event time at which the history of the rule's series starts."""
        epoch = folded.epoch(place[1])
        h_ms = self.bounds(place, folded).retained_from_ms
        return self._series[place, in_force.series].start_ms(epoch, self._history_starts[place, epoch], h_ms)

    def advance_series(self, place: Place, folded: FoldedRules) -> None:
        """Advance B of the series in force, after the watermark."""
        for in_force in folded.of(place[1]):
            window = in_force.rule.long_window
            if window is not None:
                oldest_ms = window.start_ms(self.bounds(place, folded).watermark_ms - in_force.rule.baseline_ms)
                self._series[place, in_force.series].advance(oldest_ms)

    def connected(self, x: Row, e: Row, grouping: Grouping) -> bool:
        """Check that no boundary of the grouping lies between the append times of two accepted rows.

        A boundary counts if either row saw it, by its own append time and its own batch's pin: a row of a slow
        partition may arrive after rows with a later append time, and a pin may hide a clear from the rows after it.
        Rules precede transactions at equal times, so a row with the same millisecond as a boundary is after it. Rows
        count only in groupings that accepted them, that is, groupings in force for them.
        """
        first, last = sorted((x.append_ms, e.append_ms))
        boundaries = self.standings[max(x.rules_seen, e.rules_seen)].boundaries(grouping)
        return not any(first < boundary.time_ms <= last for boundary in boundaries)

    def add_history(self, warm_up: WarmUp, rows: Sequence[tuple[Row, Mapping[str, Value] | None]]) -> None:
        """Add the accepted transactions from before a rule record that requests a warm-up, as its grouping would hold
        them had it existed with the reach at the record all along. A clear or the end of the grouping makes it void.

        A transaction that the grouping has is not added. The retention bound becomes that of the grouping's reach, but
        does not bring back rows that were below it. The history begins where the added one does.
        """
        entry, folded = self._log[warm_up.version], self.standings[warm_up.pin]
        rule = entry.change
        if warm_up.version >= warm_up.pin or not isinstance(rule, Rule) or not rule.document.get("warmUp"):
            return
        grouping = rule.grouping
        if grouping not in folded.groupings or folded.epoch(grouping) > warm_up.version:
            return
        asked = self.standings[warm_up.version + 1]
        reach_ms = max(each.rule.reach_ms for each in asked.of(grouping))
        since_ms = max((clear.time_ms for clear in asked.clears), default=LONG_AGO_MS)
        histories: dict[Place, History] = {}
        for row, values in rows:
            if values is None or row.offset >= warm_up.ends.get(row.partition, 0):
                continue
            if not since_ms <= row.append_ms < entry.time_ms:
                continue
            row.values = values
            for of_key in self.rows_in(row, grouping):
                self._accept_past(of_key, grouping, histories, reach_ms)
        for number in range(self._key_groups):
            place = (number, grouping)
            self._merge(place, histories.get(place, History()), folded, warm_up.version)

    def _accept_past(self, row: Row, grouping: Grouping, histories: dict[Place, History], reach_ms: int) -> None:
        key = tuple(row.values[name] for name in grouping)
        if None not in key:
            history = histories.setdefault(self.place(grouping, key), History())
            if history.accept(row, key):
                self.advance(history.bounds, row, reach_ms)

    def _merge(self, place: Place, history: History, folded: FoldedRules, version: int) -> None:
        self._merge_into_series(place, history, folded, version)
        grouping = place[1]
        widest_ms = max(each.rule.reach_ms for each in folded.of(grouping))
        epoch = folded.epoch(grouping)
        bounds = self.bounds(place, folded)
        boundary_ms = max(each.time_ms for each in folded.boundaries(grouping) if each.version == epoch)
        accepted = self._accepted.setdefault(place, [])
        old_ms = bounds.retained_from_ms
        accepted[:] = [kept for kept in accepted if kept.bounds is not bounds or kept.row.event_ms >= old_ms]
        for (at, _), of_key in self._of_key.items():
            if at == place:
                of_key[:] = [kept for kept in of_key if kept.bounds is not bounds or kept.row.event_ms >= old_ms]
        known = [kept for kept in accepted if kept.row.append_ms >= boundary_ms and kept.is_retained]
        if (place, epoch) not in self._history_starts and known:
            self._history_starts[place, epoch] = known[0].row.event_ms
        starts = [max(self._history_starts[place, epoch], old_ms)] if (place, epoch) in self._history_starts else []
        if history.rows:
            starts.append(max(history.rows[0][0].event_ms, history.bounds.retained_from_ms))
        if starts:
            self._history_starts[place, epoch] = min(starts)
        if bounds.watermark_ms != LONG_AGO_MS:
            bounds.retained_from_ms = min(old_ms, bounds.watermark_ms - widest_ms)
        from_ms = max(bounds.retained_from_ms, history.bounds.retained_from_ms)
        for row, key in history.rows:
            of_key = self._of_key.setdefault((place, key), [])
            known_ids = {kept.row.identity for kept in of_key if kept.row.append_ms >= boundary_ms and kept.is_retained}
            if row.event_ms >= from_ms and row.identity not in known_ids:
                # The row counts for the rows of this epoch, as if it had been appended at the epoch's beginning.
                row.append_ms, row.rules_seen = max(row.append_ms, boundary_ms), epoch + 1
                of_key.append(RetainedRow(row, bounds))
                accepted.append(of_key[-1])

    def _merge_into_series(self, place: Place, history: History, folded: FoldedRules, version: int) -> None:
        """Add the rows that the series of the record would count had it existed all along. Any other series gets those
        that the grouping retains from now on. One that a rule of this pin ends is such a series, because rows from
        before that rule may follow."""
        grouping, epoch = place[1], folded.epoch(place[1])
        boundary_ms = max(each.time_ms for each in folded.boundaries(grouping) if each.version == epoch)
        h_ms = self.bounds(place, folded).retained_from_ms
        if not history.rows:
            return
        boundary = Boundary(epoch, boundary_ms)
        own = [
            (each.rule, window)
            for each in folded.of(grouping)
            if each.series == version and (window := each.rule.long_window) is not None
        ]
        if own:
            self.begin_series(place, folded, version)
        retained = [each for each in history.rows if each[0].event_ms >= history.bounds.retained_from_ms]
        for (of_place, number), series in self._series.items():
            if of_place == place and not (own and number == version):
                series.add_retained(retained, boundary, max(h_ms, series.began_at_ms))
        for rule, window in own:
            oldest_ms = window.start_ms(history.bounds.watermark_ms - rule.baseline_ms)
            from_ms = min(history.bounds.retained_from_ms, oldest_ms)
            start_ms = self._history_starts.get((place, epoch))
            self._series[place, version].add_history(history.rows, from_ms, boundary, start_ms, h_ms)

    def _begin_history(self, accepted: Sequence[RetainedRow], row: Row, epoch: tuple[Place, int]) -> None:
        """Set the eventTime at which the retained history of a key group starts, at the first row of an epoch.

        The history starts at the first row, by arrival, that is still retained and that no boundary separates from this
        row. This is the row itself, unless a pin hid the boundary from the batch of an earlier row.
        """
        grouping = epoch[0][1]
        self._history_starts[epoch] = next(
            kept.row.event_ms for kept in accepted if kept.is_retained and self.connected(kept.row, row, grouping)
        )

    def advance(self, bounds: Bounds, row: Row, widest_window_ms: int) -> None:
        """Advance watermark and H. A late row may advance only H, and only if the widest window shrank."""
        reached_ms = min(row.event_ms, row.append_ms) - self._max_out_of_orderness_ms
        bounds.watermark_ms = max(bounds.watermark_ms, reached_ms)
        bounds.retained_from_ms = max(bounds.retained_from_ms, bounds.watermark_ms - widest_window_ms)

    def _hashable(self, name: str, value: Value) -> int | str:
        entity = entity_of((name,), self._entities)
        declared = self._schema.field(name if entity is None else next(iter(entity.roles.values())))
        assert value is not None and declared is not None
        return unscaled(value, declared) if isinstance(value, Decimal) else value
