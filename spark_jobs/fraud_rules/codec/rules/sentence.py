"""A rule in words, with the labels of the schema: `Alert when one payer has more than 3 payments within 10 minutes.`

The pages have the same sentences (`ruleSentence` in ruleSentence.ts); tests/corpus/rule_lines.json has cases for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fraud_rules.model.aggregate import AggregateFunction, AggregateInput
from fraud_rules.model.rule import (
    AggregateCondition,
    Baseline,
    Condition,
    NamedRule,
    Operator,
    Rule,
    RuleAction,
    RuleState,
)
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.window import Window
from fraud_rules.runtime.grouped_number import grouped

_COMPARISONS = {
    Operator.GREATER: "more than",
    Operator.GREATER_EQUAL: "at least",
    Operator.LESS: "less than",
    Operator.LESS_EQUAL: "at most",
    Operator.EQUAL: "exactly",
    Operator.NOT_EQUAL: "not exactly",
}
_UNITS_MS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))


def rule_sentence(rule: Rule, schema: TransactionSchema) -> str:
    """Describe a rule in a few sentences: its aggregate, its conditions, its filter, and the payments and keys for
    which it is evaluated."""
    words = _Words(schema)
    verb = "Alert and restrict" if rule.action is RuleAction.RESTRICT else "Alert"
    if rule.state is RuleState.SIGNAL:
        verb = "Signal"
    subject = f"{words.subject(rule.grouping)} has" if rule.grouping else "all payments together have"
    sentences = [f"{verb} when {subject} {words.held(rule)}."]
    if rule.filter is not None:
        sentences.append(f"Only payments where {rule.filter} count.")
    if rule.when is not None:
        sentences.append(f"Evaluated at payments where {rule.when}.")
    if rule.rollout is not None:
        sentences.append(f"Evaluated for {rule.rollout.percent} % of the keys.")
    return " ".join(sentences)


def required_text(rule: Rule) -> str:
    """The number of conditions that must hold, in words: `all`, `at least 2`."""
    if rule.required == len(rule.conditions):
        return "all"
    return {0: "none", 1: "any"}.get(rule.required, f"at least {rule.required}")


class _Words:
    """The words for the fields of a schema."""

    def __init__(self, schema: TransactionSchema) -> None:
        self._schema = schema

    def held(self, rule: Rule) -> str:
        """What must hold: the own aggregate, and as many conditions as the rule requires."""
        own = self.condition(rule) if rule.baseline is None else self.compared(rule, rule.baseline)
        if not rule.conditions:
            return own
        joined = "; ".join(self._further(each, rule) for each in rule.conditions)
        is_one = len(rule.conditions) == rule.required == 1
        conditions = joined if is_one else f"{required_text(rule)} of these: {joined}"
        return f"{own}, and {conditions}" if rule.has_aggregate else conditions

    def _further(self, of: Condition, rule: Rule) -> str:
        if isinstance(of, NamedRule):
            return f"a payment for which rule {of.rule_id} holds"
        return f"{self.condition(of)}{_filtered(of, rule)}"

    def condition(self, of: Rule | AggregateCondition) -> str:
        """An aggregate with its limit and window."""
        window = _window(of.window)
        comparison = f"{_COMPARISONS[of.operator]} {grouped(of.limit_text)}"
        counted = self._counted(of.aggregate_function, of.unique)
        if counted is not None:
            return f"{comparison} {counted} within {window}"
        measured = self._measured(of.aggregate_function, of.aggregate_field)
        return f"{_with_article(measured)} of {comparison}{self._unit(of.aggregate_field)} within {window}"

    def compared(self, rule: Rule, baseline: Baseline) -> str:
        """The aggregate and the value of the past with which a rule compares it."""
        within = f"within {_window(rule.window)}"
        value = _with_article(self._value(rule.aggregate_function, rule.aggregate_field, rule.unique))
        comparison = f"{_COMPARISONS[rule.operator]} {grouped(rule.limit_text)}"
        past = self._value(baseline.aggregate_function, baseline.aggregate_field, ())
        before = f"of the {_length(baseline.window_ms)} before"
        if baseline.deviations:
            side = "below" if rule.operator in (Operator.LESS, Operator.LESS_EQUAL) else "above"
            past = self._measured(AggregateFunction.AVG, baseline.aggregate_field)
            text = f"{within} {value} of {comparison} standard deviations {side} the {past} {before}"
        else:
            text = f"{within} {value} of {comparison} times the {past} {before}"
        return text if baseline.filter is None else f"{text} (payments where {baseline.filter})"

    def subject(self, grouping: Iterable[str]) -> str:
        """One value of the grouping keys: `one payer`, `one pair of payer and beneficiary`."""
        names = list(grouping)
        prefix = {1: "one", 2: "one pair of"}.get(len(names), "one combination of")
        return f"{prefix} {self.joined(names)}"

    def joined(self, names: Iterable[str]) -> str:
        """Labels in the order of the schema: `payer and beneficiary`."""
        return " and ".join(self._label(name) for name in self._ordered(names))

    def _value(self, function: AggregateFunction, name: str | None, unique: Iterable[str]) -> str:
        counted = self._counted(function, unique)
        return self._measured(function, name) if counted is None else f"number of {counted}"

    def _counted(self, function: AggregateFunction, unique: Iterable[str]) -> str | None:
        """The words of a function that counts; None for another one."""
        match function.traits.input:
            case AggregateInput.ROWS:
                return function.traits.words.format("payments")
            case AggregateInput.UNIQUE:
                names = self._ordered(unique)
                noun = _plural(self._label(names[0])) if len(names) == 1 else f"combinations of {self.joined(names)}"
                return function.traits.words.format(noun)
        return None

    def _measured(self, function: AggregateFunction, name: str | None) -> str:
        return function.traits.words.format("count" if name is None else self._label(name))

    def _unit(self, name: str | None) -> str:
        field = None if name is None else self._schema.field(name)
        return f" {field.display.unit}" if field is not None and field.display.unit else ""

    def _label(self, name: str) -> str:
        field = self._schema.field(name)
        label = name if field is None or not field.display.label else field.display.label
        return label if label == name else label[:1].lower() + label[1:]

    def _ordered(self, names: Iterable[str]) -> list[str]:
        order = {name: i for i, name in enumerate(self._schema.names)}
        return sorted(names, key=lambda name: order.get(name, len(order)))


def _filtered(condition: AggregateCondition, rule: Rule) -> str:
    """The filter of a condition, if it is not that of the rule."""
    if condition.filter == rule.filter:
        return ""
    return " (all payments)" if condition.filter is None else f" (payments where {condition.filter})"


def _window(window: Window) -> str:
    steps = f" in steps of {_length(window.step_ms)}" if window.is_long else ""
    return window.calendar_text or f"{_length(window.reach_ms)}{steps}"


def _length(length_ms: int) -> str:
    unit_ms, unit = next(((ms, name) for ms, name in _UNITS_MS if length_ms % ms == 0), (1, "millisecond"))
    count = length_ms // unit_ms
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _plural(noun: str) -> str:
    if re.search(r"[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if re.search(r"(s|x|ch|sh)$", noun) else f"{noun}s"


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[:1] in "aeiou" else f"a {noun}"
