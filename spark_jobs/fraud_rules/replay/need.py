"""The part of the history that a rebuild needs. Pure."""

from __future__ import annotations

from typing import NamedTuple

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleSet


class HistoryNeed(NamedTuple):
    """The transactions that determine a state.

    The state needs all transactions that were appended at `from_ms` (epoch ms) or later. With `marks`, older
    transactions may still affect marks, so a rebuild reads them if the topics have them.
    """

    from_ms: int
    marks: bool


def history_need(rules: RuleSet, settings: DetectorSettings, watermark_ms: int) -> HistoryNeed:
    """The need of a state with these rules in force, and with this newest watermark of its key groups.

    A payment from now on counts rows of the widest window before its event time, and no transaction is appended earlier
    than `future_tolerance_ms` before its event time. A key group or grouping without payments keeps an old watermark,
    and accepts payments of any age from there on. So the need does not follow from the oldest watermark: it has the
    windows of all payments that are up to `max_out_of_orderness_ms` older than the newest watermark, even if the clock
    of the payment that moved this watermark was ahead by the tolerance. An older payment finds an incomplete window,
    and its alerts say so. A cool-down and a reset follow from earlier alerts. So with them, the
    need also has the longest cool-down, and another window before it, in which these alerts were evaluated.
    """
    widest_ms = max((each.rule.reach_ms for each in rules.rules.values()), default=0)
    marked = [each.rule for each in rules.rules.values() if _has_marks(each.rule)]
    back_ms = widest_ms + settings.max_out_of_orderness_ms + 2 * settings.future_tolerance_ms
    if marked:
        back_ms += widest_ms + max(rule.cooldown_ms or 0 for rule in marked)
    return HistoryNeed(watermark_ms - back_ms, bool(marked))


def _has_marks(rule: Rule) -> bool:
    return rule.cooldown_ms is not None or rule.aggregate_function is AggregateFunction.COUNT_WITH_RESET
