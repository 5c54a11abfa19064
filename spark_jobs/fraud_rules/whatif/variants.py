"""The draft and its variants, as rules that are evaluated side by side: one pass, shared windows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from fraud_rules.limits import RuleLimits
from fraud_rules.rule import Rule, RuleState
from fraud_rules.ruleset import LogEntry, RuleTimeline
from fraud_rules.schema import ID_FIELD, TIME_FIELD, TransactionSchema

__all__ = ["Variants", "variants_of"]

LIMITS = 50
_SPAN = Decimal(10)
_WINDOWS = (Decimal("0.25"), Decimal("0.5"), Decimal(2), Decimal(4))


@dataclass(frozen=True, slots=True)
class Variants:
    """Rules of one grouping by position: the draft first, then one for each of `limits`, then of `windows_ms`."""

    draft: Rule
    limits: tuple[Decimal, ...]
    windows_ms: tuple[int, ...]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All of them; a variant's id is its position and 1."""
        drafts = [
            self.draft,
            *(replace(self.draft, limit=limit) for limit in self.limits),
            *(replace(self.draft, window_ms=window_ms) for window_ms in self.windows_ms),
        ]
        return tuple(replace(rule, rule_id=i, state=RuleState.ACTIVE) for i, rule in enumerate(drafts, 1))

    @property
    def reach_ms(self) -> int:
        """How long before the first day something can still count."""
        return max((self.draft.window_ms, *self.windows_ms)) + (self.draft.cooldown_ms or 0)

    def timeline(self) -> RuleTimeline:
        """A rule log that has had them all from the beginning."""
        return RuleTimeline(LogEntry.accepted(i, 0, rule) for i, rule in enumerate(self.rules))

    def schema(self, schema: TransactionSchema) -> TransactionSchema:
        """The fields that matter to them."""
        wanted = {ID_FIELD, TIME_FIELD, *self.draft.fields}
        return TransactionSchema(tuple(field for field in schema.fields if field.name in wanted))


def variants_of(draft: Rule, bounds: RuleLimits, limits: Sequence[Decimal] = (), *, windows: bool = True) -> Variants:
    """The draft with other limits (those given, else LIMITS of them around its own) and other windows."""
    chosen = tuple(sorted(set(limits))) or tuple(_around(draft.limit))
    longest_ms = bounds.max_window_minutes * 60_000
    scaled = [int(draft.window_ms * factor) // 1_000 * 1_000 for factor in _WINDOWS] if windows else []
    return Variants(draft, chosen, tuple(each for each in scaled if 1_000 <= each <= longest_ms))


def _around(limit: Decimal) -> Iterable[Decimal]:
    """Limits from a tenth to ten times as much, each a little more than the last; around zero, from -1 to 1."""
    if not limit:
        return [Decimal(2 * i - LIMITS + 1) / (LIMITS - 1) for i in range(LIMITS)]
    step = (_SPAN * _SPAN) ** (Decimal(1) / (LIMITS - 1))
    ratios = [step**i / _SPAN for i in range(LIMITS)]
    return sorted({_rounded(limit * ratio) for ratio in ratios} | {limit})


def _rounded(value: Decimal) -> Decimal:
    """To three digits, as a person would write it."""
    exponent = value.adjusted() - 2
    return Decimal(int(value.scaleb(-exponent).to_integral_value())).scaleb(exponent) if value else value
