"""The draft and its variants as rules, which are evaluated together in one pass with shared windows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from fraud_rules.batch.whatif.limit_grid import has_grid
from fraud_rules.engine.window.curve import depends_on_alerts
from fraud_rules.errors import InputInvalid
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.expressions.expression import Arithmetic, Constant, ExpressionType
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule, RuleState
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.model.value_list import ListChange
from fraud_rules.model.value_map import MapChange
from fraud_rules.model.window import Window

__all__ = ["Variants", "limits_of", "probe_of", "variants_of"]

MOST_LIMITS = 200
_WINDOWS = (Decimal("0.25"), Decimal("0.5"), Decimal(2), Decimal(4))


@dataclass(frozen=True, slots=True)
class Variants:
    """The draft with other `limits` (ascending) and other `windows_ms`. If the draft's limit is an expression, `limits`
    are factors of it.

    `collection_changes` are the accepted records of lists and maps of the rule log. A transaction
    is evaluated with the lists and maps as of its append time.
    """

    draft: Rule
    limits: tuple[Decimal, ...]
    windows_ms: tuple[int, ...]
    collection_changes: tuple[LogEntry, ...] = ()

    @property
    def share_evaluations(self) -> bool:
        """Whether the draft's evaluations give the result of all limits."""
        return not depends_on_alerts(self.draft) and has_grid(self.draft)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The evaluated rules: the draft, one for each limit unless they share evaluations, and one for each window.

        The id of a rule is its position plus 1.
        """
        drafts = [
            self.draft,
            *(_with_limit(self.draft, limit) for limit in (() if self.share_evaluations else self.limits)),
            *(replace(self.draft, window=Window(window_ms)) for window_ms in self.windows_ms),
        ]
        return tuple(replace(rule, rule_id=i, state=RuleState.ACTIVE) for i, rule in enumerate(drafts, 1))

    @property
    def reach_ms(self) -> int:
        """The time before the first day in which transactions can still count."""
        return max(rule.reach_ms for rule in self.rules) + (self.draft.cooldown_ms or 0)

    def timeline(self) -> RuleTimeline:
        """A rule log that has all evaluated rules from the beginning, and the changes of lists and maps."""
        rules = self.rules
        entries = [LogEntry.accepted(i, 0, rule) for i, rule in enumerate(rules)]
        entries += [replace(each, version=each.version + len(rules)) for each in self.collection_changes]
        return RuleTimeline(entries, hypothetical=True)

    def schema(self, schema: TransactionSchema) -> TransactionSchema:
        """The fields that the rules use."""
        wanted = {ID_FIELD, TIME_FIELD, *self.draft.fields}
        return TransactionSchema(tuple(field for field in schema.fields if field.name in wanted))


def _with_limit(draft: Rule, limit: Decimal) -> Rule:
    """The draft with another limit, or with this factor of its expression."""
    if draft.limit_expression is None:
        return replace(draft, limit=limit)
    factor = Constant(limit, ExpressionType.NUMBER)
    return replace(draft, limit=Arithmetic(factor, "*", draft.limit_expression))


def variants_of(
    draft: Rule,
    bounds: RuleLimits,
    limits: Sequence[Decimal],
    *,
    windows: bool = True,
    log: Iterable[LogEntry] = (),
) -> Variants:
    """The draft with these limits and other windows; a calendar window has none. `log` are the entries of the rule log,
    from a timeline. Raises InputInvalid for a draft that names rules."""
    if draft.named_rules:
        named = ", ".join(str(rule_id) for rule_id in draft.named_rules)
        raise InputInvalid(
            f"the draft names the rules {named}: a what-if has no outcomes of other rules; try these rules alone, or "
            "put the draft in SHADOW"
        )
    window_ms = draft.window.reach_ms
    longest_ms = bounds.max_window_minutes * 60_000 - (draft.own_reach_ms - window_ms)
    factors = _WINDOWS if windows and draft.window.calendar is None else ()
    scaled = [int(window_ms * factor) // 1_000 * 1_000 for factor in factors]
    widths = tuple(each for each in scaled if 1_000 <= each <= longest_ms)
    changes = tuple(entry for entry in log if draft.lookups and isinstance(entry.change, ListChange | MapChange))
    return Variants(draft, tuple(sorted(set(limits))), widths, changes)


def probe_of(variants: Variants, limits: Sequence[Decimal]) -> Variants:
    """The draft with `limits`, as if earlier alerts had no effect: without its cool-down, and without resets."""
    draft = replace(variants.draft, cooldown_ms=None)
    if draft.aggregate_function is AggregateFunction.COUNT_WITH_RESET:
        draft = replace(draft, aggregate_function=AggregateFunction.COUNT)
    return replace(variants, draft=draft, limits=tuple(limits), windows_ms=())


def limits_of(text: str) -> tuple[Decimal, ...]:
    """Parse limits that are separated by commas. Raises InputInvalid."""
    try:
        limits = tuple(Decimal(part.strip()) for part in text.split(",") if part.strip())
    except InvalidOperation as error:
        raise InputInvalid(f"limits {text[:60]!r}: write numbers separated by commas") from error
    if len(limits) > MOST_LIMITS or not all(limit.is_finite() for limit in limits):
        raise InputInvalid(f"a what-if accepts at most {MOST_LIMITS} limits, and only finite ones")
    return limits
