"""Plans the evaluation of a day: the earlier days to replay first, or the reason why the day cannot be evaluated.

The marks and windows at the start of a day come from the corrected state at the end of the previous day. If that state
is missing or outdated by later data, it is recomputed from the newest valid state, or from scratch as far back as
windows and cool-downs reach. Pure, except that it reads counts from the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fraud_rules.batch.archive.manifest import Manifest, Table
from fraud_rules.batch.reevaluation.basis import Basis, SavedState
from fraud_rules.batch.reevaluation.feed import DayFeed
from fraud_rules.batch.reevaluation.report import DayResult
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import DayEmpty, DayNotArchived, DayTooOld, HistoryLost
from fraud_rules.model.day import DAY_MS, Day, days_between
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleTimeline


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The start state, if any, and the days to replay before the requested one."""

    start: tuple[Day, SavedState] | None
    before: tuple[Day, ...]


def reach_of(timeline: RuleTimeline, day: Day, settings: DetectorSettings) -> int:
    """The number of earlier days that can still affect a day.

    The rules in force at the beginning of the day count, and all later rules, because late transactions arrive under
    them. A transaction arrives at most `future_tolerance` before its event time.
    """
    known = int(timeline.entry_counts_at(np.array([day.start_ms - settings.future_tolerance_ms], np.int64))[0])
    rules = [each.rule for each in timeline.rule_set(known).rules.values()]
    rules += [entry.change for entry in timeline.entries[known:] if isinstance(entry.change, Rule)]
    widest_ms = max((rule.reach_ms + (rule.cooldown_ms or 0) for rule in rules), default=0)
    return 1 + -(-(widest_ms + settings.max_out_of_orderness_ms) // DAY_MS)


def chain_of(day: Day, basis: Basis, reach: int, state_of: Callable[[Day], SavedState | None]) -> ReplayPlan:
    """The shortest replay up to the start of a day. `basis` has the rows of all days that affect it."""
    first = day.plus(-reach)
    with_rows = [each for each in days_between(first, day.plus(-1)) if basis.rows.get(str(each.number))]
    for position in range(len(with_rows) - 1, -1, -1):
        candidate = with_rows[position]
        state = state_of(candidate)
        if state is not None and state.basis.agrees(basis, first, candidate):
            return ReplayPlan((candidate, state), tuple(with_rows[position + 1 :]))
    return ReplayPlan(None, tuple(with_rows))


def check_archived(manifest: Manifest, day: Day, settings: DetectorSettings, now_ms: int) -> None:
    """Raise DayNotArchived, DayTooOld or DayEmpty for a day without data to evaluate."""
    topic = settings.topics.transactions
    if day.start_ms >= manifest.complete_until_ms:
        raise DayNotArchived(f"{day} is not in the archive yet: {_remedy(manifest)}")
    if manifest.rows(Table.TRANSACTIONS, day):
        return
    if _begins_late(manifest, topic) and manifest.began_ms is not None and day.end_ms <= manifest.began_ms:
        raise DayTooOld(f"{day} is before the archive, which begins on {Day.of(manifest.began_ms)}")
    provisional(manifest, day, settings, 0, now_ms)
    raise DayEmpty(f"there is no transaction of {day}: nothing to evaluate")


def check_history(manifest: Manifest, day: Day, reach: int, chain: ReplayPlan, topic: str) -> None:
    """Raise HistoryLost if windows include records that retention removed before the archive began."""
    if chain.start is None and _begins_late(manifest, topic) and manifest.began_ms is not None:
        begins = Day.of(manifest.began_ms)
        if day < begins.plus(reach):
            raise HistoryLost(
                f"windows and cool-downs of {day} reach back {reach} days, but the archive begins on {begins}, after "
                "retention had removed earlier records: evaluate a later day, or use --incomplete-history"
            )


def check_same_topic(began_ms: int | None, day: Day, reach: int, chain: ReplayPlan) -> None:
    """Raise HistoryLost if windows include transactions of an earlier topic. `began_ms` is the time at which the
    detector began to read the present one, None if it is the only one.
    """
    if chain.start is None and began_ms is not None and day < Day.of(began_ms).plus(reach):
        raise HistoryLost(
            f"windows and cool-downs of {day} reach back {reach} days, but the topic of transactions was created again "
            f"on {Day.of(began_ms)}: evaluate a later day, or use --incomplete-history"
        )


def provisional(manifest: Manifest, day: Day, settings: DetectorSettings, unevaluated: int, now_ms: int) -> str | None:
    """The reason why the day is provisional, so that nothing may be published yet. None if its data is complete.

    Raises DayNotArchived if the day is over and the archive is behind.
    """
    settled_ms = _settled_ms(day, settings)
    if manifest.complete_until_ms < settled_ms:
        if now_ms < settled_ms:
            return "the day still receives data"
        raise DayNotArchived(f"the archive does not reach to the end of {day} yet: {_remedy(manifest)}")
    return f"{unevaluated} transactions of the day wait for the detector" if unevaluated else None


def basis_of(feeds: Mapping[Day, DayFeed], evaluated: Mapping[int, int], settings: DetectorSettings) -> Basis:
    """The basis of a state with all evaluated rows of these days: those before these ends, by partition."""
    rows = {str(day.number): feed.evaluated_rows(evaluated) for day, feed in feeds.items()}
    return Basis(settings.key_groups, settings.max_out_of_orderness_ms, {day: n for day, n in rows.items() if n})


def is_due(result: DayResult, now: Basis, reach: int, manifest: Manifest, settings: DetectorSettings) -> bool:
    """Whether a day must be evaluated again. `now` has the current rows of all days.

    A published day is due if its basis has fewer rows than there are now, a provisional day if it is not provisional
    anymore. The basis of an empty day is only the day itself.
    """
    day = Day.parse(result.day)
    if result.settled is not None:
        return not result.settled.has_rows_of(now, day.plus(-reach) if result.transactions else day, day)
    if result.report_only or manifest.complete_until_ms < _settled_ms(day, settings):
        return False
    return manifest.rows(Table.TRANSACTIONS, day) == now.rows.get(str(day.number), 0)


def _settled_ms(day: Day, settings: DetectorSettings) -> int:
    """The time at which all transactions of a day that are not late have arrived."""
    return day.end_ms + settings.max_out_of_orderness_ms


def _remedy(manifest: Manifest) -> str:
    return manifest.open_transaction or "run the archive first (fraud_archive)"


def _begins_late(manifest: Manifest, topic: str) -> bool:
    return any(offset > 0 for offset in manifest.starts.get(topic, {}).values())
