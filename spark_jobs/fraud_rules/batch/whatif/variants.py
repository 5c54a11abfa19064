"""The draft and its variants as rules, which are evaluated together in one pass with shared windows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from fraud_rules.batch.whatif.limit_grid import has_grid
from fraud_rules.engine.window.evaluation.curve import depends_on_alerts
from fraud_rules.errors import InputInvalid
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.expressions.expression import Arithmetic, Constant, ExpressionType
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Condition, NamedRule, Rule, RuleState
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.model.value_list import ListChange
from fraud_rules.model.value_map import MapChange
from fraud_rules.model.window import Window

MOST_LIMITS = 200
_WINDOWS = (Decimal("0.25"), Decimal("0.5"), Decimal(2), Decimal(4))


@dataclass(frozen=True, slots=True)
class Variants:
    """The draft with other `limits` (ascending) and other `windows_ms`. If the draft's limit is an expression, `limits`
    are factors of it.

    `collection_changes` are the accepted records of lists and maps of the rule log. A transaction
    is evaluated with the lists and maps as of its append time. `named` are the rules that the draft names, as in force.
    """

    draft: Rule
    limits: tuple[Decimal, ...]
    windows_ms: tuple[int, ...]
    collection_changes: tuple[LogEntry, ...] = ()
    named: tuple[Rule, ...] = ()

    @property
    def share_evaluations(self) -> bool:
        """Whether the draft's evaluations give the result of all limits: those of a rule with conditions never do."""
        return not depends_on_alerts(self.draft) and has_grid(self.draft)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The evaluated rules: the draft, one for each limit unless they share evaluations, and one for each window.

        The id of a rule is its position plus 1.
        """
        drafts = [
            self.draft,
            *(_with_limit(self.draft, limit) for limit in (() if self.share_evaluations else self.limits)),
            *(replace(self.draft, window=replace(self.draft.window, reach_ms=each)) for each in self.windows_ms),
        ]
        return tuple(replace(rule, rule_id=i, state=RuleState.ACTIVE) for i, rule in enumerate(drafts, 1))

    @property
    def reach_ms(self) -> int:
        """The time before the first day in which transactions can still count."""
        return max(rule.reach_ms for rule in (*self.rules, *self.named)) + (self.draft.cooldown_ms or 0)

    def timeline(self) -> RuleTimeline:
        """A rule log that has all evaluated rules from the beginning, and the changes of lists and maps."""
        rules = self.rules if not self.named else self._named_first()
        entries = [LogEntry.accepted(i, 0, rule) for i, rule in enumerate(rules)]
        entries += [replace(each, version=each.version + len(rules)) for each in self.collection_changes]
        return RuleTimeline(entries, hypothetical=True)

    def _named_first(self) -> tuple[Rule, ...]:
        """The evaluated rules after those that they name, which get the highest ids. The draft without its cool-down
        has the id after those of `rules`: its further alerts are those that the draft suppresses.
        """
        last = len(self.rules) + 1
        named = [replace(rule, rule_id=last + i) for i, rule in enumerate(self.named, 1)]
        ids = dict(zip(self.draft.named_rules, (rule.rule_id for rule in named), strict=True))
        uncooled = replace(self.rules[0], rule_id=last, cooldown_ms=None)
        evaluated = (replace(rule, conditions=_renamed(rule, ids)) for rule in (*self.rules, uncooled))
        return (*named, *evaluated)

    def schema(self, schema: TransactionSchema) -> TransactionSchema:
        """The fields and the entities that the rules use."""
        rules = (self.draft, *self.named)
        found = {schema.entity_of(rule.grouping) for rule in rules}
        entities = tuple(each for each in schema.entities if each in found)
        wanted = {ID_FIELD, TIME_FIELD, *(name for each in entities for name in each.fields)}
        wanted |= {name for rule in rules for name in rule.fields}
        fields = tuple(field for field in schema.fields if field.name in wanted)
        return TransactionSchema(fields, entities=entities)


def _renamed(rule: Rule, ids: Mapping[int, int]) -> tuple[Condition, ...]:
    """The conditions of a rule, with other ids of the rules that they name."""
    return tuple(NamedRule(ids[each.rule_id]) if isinstance(each, NamedRule) else each for each in rule.conditions)


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
    log: RuleTimeline | None = None,
) -> Variants:
    """The draft with these limits and other windows; a calendar window has none, and neither has a draft without an own
    aggregate. `log` is the rule log, which has the rules that the draft names."""
    window_ms = draft.window.reach_ms
    longest_ms = _longest_ms(draft.window, bounds) - (draft.whole_window.reach_ms - window_ms)
    factors = _WINDOWS if windows and draft.window.calendar is None and draft.has_aggregate else ()
    scaled = [int(window_ms * factor) // 1_000 * 1_000 for factor in factors]
    widths = tuple(each for each in scaled if max(1_000, draft.window.step_ms) <= each <= longest_ms)
    named = () if log is None else tuple(log.latest.rules[rule_id].rule for rule_id in draft.named_rules)
    looks_up = any(rule.lookups for rule in (draft, *named))
    entries = () if log is None or not looks_up else log.entries
    changes = tuple(entry for entry in entries if isinstance(entry.change, ListChange | MapChange))
    return Variants(draft, tuple(sorted(set(limits))), widths, changes, named)


def _longest_ms(window: Window, bounds: RuleLimits) -> int:
    """The longest that such a window, with its baseline, may be."""
    if not window.is_long:
        return bounds.max_window_minutes * 60_000
    return min(bounds.max_long_window_minutes * 60_000, bounds.max_steps * window.step_ms)


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
