"""What an evaluation of a day begins with: which earlier days must be replayed first, and why a day cannot be.

The marks and windows at the start of a day come from the corrected end of the day before. Where that is not kept, or
rests on data that has been added to since, it is made again from the newest end that holds, or from nothing as far
back as windows and cool-downs reach. Pure, but for reading counts from the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fraud_rules.batch.archive.manifest import Manifest, Table
from fraud_rules.batch.reevaluation.basis import Basis, SavedState
from fraud_rules.batch.reevaluation.feed import DayFeed
from fraud_rules.batch.reevaluation.report import DayResult
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import DayEmpty, DayNotArchived, DayTooOld, HistoryLost
from fraud_rules.model.day import DAY_MS, Day, days_between
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import LogEntry

__all__ = ["Chain", "chain_of", "check_archived", "check_history", "is_due", "provisional", "reach_of"]


@dataclass(frozen=True, slots=True)
class Chain:
    """The state to begin with, if any, and the days to replay before the one that is wanted."""

    start: tuple[Day, SavedState] | None
    before: tuple[Day, ...]


def reach_of(entries: Iterable[LogEntry], settings: DetectorSettings) -> int:
    """How many days back something can still count."""
    rules = [entry.change for entry in entries if isinstance(entry.change, Rule)]
    widest_ms = max((rule.window_ms + (rule.cooldown_ms or 0) for rule in rules), default=0)
    return 1 + -(-(widest_ms + settings.max_out_of_orderness_ms) // DAY_MS)


def chain_of(day: Day, basis: Basis, reach: int, state_of: Callable[[Day], SavedState | None]) -> Chain:
    """The shortest way to the start of a day. `basis` holds the rows of all days that reach into it."""
    first = day.plus(-reach)
    with_rows = [each for each in days_between(first, day.plus(-1)) if basis.rows.get(str(each.number))]
    for position in range(len(with_rows) - 1, -1, -1):
        candidate = with_rows[position]
        state = state_of(candidate)
        if state is not None and state.basis.agrees(basis, first, candidate):
            return Chain((candidate, state), tuple(with_rows[position + 1 :]))
    return Chain(None, tuple(with_rows))


def check_archived(manifest: Manifest, day: Day, settings: DetectorSettings, now_ms: int) -> None:
    """Raise DayNotArchived, DayTooOld or DayEmpty for a day of which there is nothing to evaluate."""
    topic = settings.topics.transactions
    if day.start_ms >= manifest.complete_until_ms:
        raise DayNotArchived(f"{day} is not in the archive yet: run the archive first (fraud_archive)")
    if manifest.rows(Table.TRANSACTIONS, day):
        return
    if _begins_late(manifest, topic) and manifest.began_ms is not None and day.end_ms <= manifest.began_ms:
        raise DayTooOld(f"{day} is older than what the archive keeps: it begins on {Day.of(manifest.began_ms)}")
    provisional(manifest, day, settings, 0, now_ms)
    raise DayEmpty(f"there is no transaction of {day}: nothing to evaluate")


def check_history(manifest: Manifest, day: Day, reach: int, chain: Chain, topic: str) -> None:
    """Raise HistoryLost when windows reach back behind the archive's beginning, into records that were there once."""
    if chain.start is None and _begins_late(manifest, topic) and manifest.began_ms is not None:
        begins = Day.of(manifest.began_ms)
        if day < begins.plus(reach):
            raise HistoryLost(
                f"windows and cool-downs of {day} reach back {reach} days, but the archive begins on {begins}, after "
                "retention had removed what was before: evaluate a later day, or say --incomplete-history"
            )


def provisional(manifest: Manifest, day: Day, settings: DetectorSettings, unjudged: int, now_ms: int) -> str | None:
    """Why nothing of the day may be published yet; None when all that belongs to it is known.

    Raises DayNotArchived when the day is over and the archive is behind.
    """
    settled_ms = _settled_ms(day, settings)
    if manifest.complete_until_ms < settled_ms:
        if now_ms < settled_ms:
            return "the day still receives data"
        raise DayNotArchived(
            f"the archive does not reach to the end of {day} yet: run the archive first (fraud_archive)"
        )
    return f"{unjudged} transactions of the day wait for the detector" if unjudged else None


def basis_of(feeds: Mapping[Day, DayFeed], settings: DetectorSettings) -> Basis:
    """What a state rests on that has seen all judged rows of these days."""
    rows = {str(day.number): feed.judged_rows() for day, feed in feeds.items()}
    return Basis(settings.key_groups, settings.max_out_of_orderness_ms, {day: n for day, n in rows.items() if n})


def is_due(result: DayResult, now: Basis, reach: int, manifest: Manifest, settings: DetectorSettings) -> bool:
    """Whether a day is to be evaluated again. `now` holds all days' rows.

    A published one is when it rests on less than there is now; one that was only provisional, when it no longer is.
    One that was empty rests on itself alone.
    """
    day = Day.parse(result.day)
    if result.settled is not None:
        return not result.settled.has_rows_of(now, day.plus(-reach) if result.transactions else day, day)
    if result.report_only or manifest.complete_until_ms < _settled_ms(day, settings):
        return False
    return manifest.rows(Table.TRANSACTIONS, day) == now.rows.get(str(day.number), 0)


def _settled_ms(day: Day, settings: DetectorSettings) -> int:
    """When all that belongs to a day in time has arrived."""
    return day.end_ms + settings.max_out_of_orderness_ms


def _begins_late(manifest: Manifest, topic: str) -> bool:
    return any(offset > 0 for offset in manifest.starts.get(topic, {}).values())
