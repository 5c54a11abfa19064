"""The draft and its variants as rules, which are evaluated together in one pass with shared windows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from fraud_rules.engine.window.curve import depends_on_alerts
from fraud_rules.errors import InputInvalid
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import AggregateFunction, Rule, RuleState
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.model.value_list import ListChange

__all__ = ["Variants", "limits_of", "variants_of"]

LIMITS = 50
MOST_LIMITS = 200
_SPAN = Decimal(10)
_COUNTING = (AggregateFunction.COUNT, AggregateFunction.COUNT_DISTINCT, AggregateFunction.COUNT_WITH_RESET)
_WINDOWS = (Decimal("0.25"), Decimal("0.5"), Decimal(2), Decimal(4))


@dataclass(frozen=True, slots=True)
class Variants:
    """Rules of one grouping by position: the draft first, then one for each of `limits`, then of `windows_ms`.

    `list_changes` are the accepted list records of the rule log. A transaction is evaluated with the lists as of its
    append time.
    """

    draft: Rule
    limits: tuple[Decimal, ...]
    windows_ms: tuple[int, ...]
    list_changes: tuple[LogEntry, ...] = ()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules. The id of a variant is its position plus 1."""
        drafts = [
            self.draft,
            *(replace(self.draft, limit=limit) for limit in self.limits),
            *(replace(self.draft, window_ms=window_ms) for window_ms in self.windows_ms),
        ]
        return tuple(replace(rule, rule_id=i, state=RuleState.ACTIVE) for i, rule in enumerate(drafts, 1))

    @property
    def limit_rules(self) -> tuple[Rule, ...]:
        """The rules that differ from the draft only in their limits.

        They lack `when`, because the evaluations of the draft already satisfy it.
        """
        return tuple(replace(rule, when=None) for rule in self.rules[1 : 1 + len(self.limits)])

    @property
    def share_evaluations(self) -> bool:
        """Whether the draft's evaluations give the result of all limits."""
        return not depends_on_alerts(self.draft)

    @property
    def reach_ms(self) -> int:
        """The time before the first day in which transactions can still count."""
        baseline_ms = self.draft.reach_ms - self.draft.window_ms
        return max((self.draft.window_ms, *self.windows_ms)) + baseline_ms + (self.draft.cooldown_ms or 0)

    def timeline(self) -> RuleTimeline:
        """A rule log that has all evaluated rules from the beginning, and the changes of lists at their times."""
        answered = {rule.rule_id for rule in self.limit_rules} if self.share_evaluations else set()
        rules = [rule for rule in self.rules if rule.rule_id not in answered]
        entries = [LogEntry.accepted(i, 0, rule) for i, rule in enumerate(rules)]
        entries += [replace(each, version=each.version + len(rules)) for each in self.list_changes]
        return RuleTimeline(entries, hypothetical=True)

    def schema(self, schema: TransactionSchema) -> TransactionSchema:
        """The fields that the rules use."""
        wanted = {ID_FIELD, TIME_FIELD, *self.draft.fields}
        return TransactionSchema(tuple(field for field in schema.fields if field.name in wanted))


def variants_of(
    draft: Rule,
    bounds: RuleLimits,
    limits: Sequence[Decimal] = (),
    *,
    windows: bool = True,
    log: Iterable[LogEntry] = (),
) -> Variants:
    """The draft with other limits (those given, else LIMITS of them around its own) and other windows.

    `log` are the entries of the rule log, from a timeline.
    """
    chosen = tuple(sorted(set(limits) or _around(draft)))
    baseline_ms = draft.reach_ms - draft.window_ms
    longest_ms = bounds.max_window_minutes * 60_000
    scaled = [int(draft.window_ms * factor) // 1_000 * 1_000 for factor in _WINDOWS] if windows else []
    widths = tuple(each for each in scaled if 1_000 <= each <= longest_ms - baseline_ms)
    lists = tuple(entry for entry in log if draft.lists and isinstance(entry.change, ListChange))
    return Variants(draft, chosen, widths, lists)


def limits_of(text: str) -> tuple[Decimal, ...]:
    """Parse limits that are separated by commas. Raises InputInvalid."""
    try:
        limits = tuple(Decimal(part.strip()) for part in text.split(",") if part.strip())
    except InvalidOperation as error:
        raise InputInvalid(f"limits {text[:60]!r}: write numbers separated by commas") from error
    if len(limits) > MOST_LIMITS or not all(limit.is_finite() for limit in limits):
        raise InputInvalid(f"a what-if accepts at most {MOST_LIMITS} limits, and only finite ones")
    return limits


def _around(draft: Rule) -> set[Decimal]:
    """Limits from a tenth to ten times the draft's, in geometric steps. For a limit of zero, from -1 to 1.

    For counts without a baseline, only whole numbers, and all of them if there are few. For a factor of zero, from 0 to
    10.
    """
    limit = draft.limit
    counts = draft.aggregate_function in _COUNTING and draft.baseline is None
    if counts and 0 <= limit <= LIMITS // 5:
        return {limit, *map(Decimal, range(LIMITS))}
    if not limit and draft.baseline is not None:
        return {Decimal(10 * i) / (LIMITS - 1) for i in range(LIMITS)}
    if not limit:
        return {Decimal(2 * i - LIMITS + 1) / (LIMITS - 1) for i in range(LIMITS)} | {limit}
    step = (_SPAN * _SPAN) ** (Decimal(1) / (LIMITS - 1))
    around = {_rounded(limit * step**i / _SPAN) for i in range(LIMITS)}
    return {limit, *(map(Decimal, map(round, around)) if counts else around)}


def _rounded(value: Decimal) -> Decimal:
    """Round to three significant digits."""
    exponent = value.adjusted() - 2
    return Decimal(int(value.scaleb(-exponent).to_integral_value())).scaleb(exponent) if value else value
