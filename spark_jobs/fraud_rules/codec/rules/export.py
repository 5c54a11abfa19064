"""Formats rules as files and as sentences for people. An exported file reads back as the same rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum

import msgspec
import yaml

from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.codec.rules.members import MEMBERS
from fraud_rules.codec.rules.numbers import decimal_of
from fraud_rules.codec.rules.sentence import required_text
from fraud_rules.errors import InputInvalid
from fraud_rules.model.expressions.predicate import Predicate
from fraud_rules.model.rule import AggregateCondition, Baseline, Condition, NamedRule, Operator, Rule
from fraud_rules.model.window import Window

_TEXT_MEMBERS = (
    "ruleId", "ruleState", "groupingKeyNames", "unique", "aggregateFieldName", "aggregatorFunctionType",
    "limitOperatorType", "limit", "windowMinutes",
)  # fmt: skip
_NOT_IN_TEXT = tuple(name for name in MEMBERS if name not in (*_TEXT_MEMBERS, "source"))
"""All other members, so that the text form drops none. The tool that reads a file names the source."""

_UNITS_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


class RuleFormat(StrEnum):
    """The format of a file of rules or lists."""

    JSON = "json"
    YAML = "yaml"
    TEXT = "text"


def export_rules(rules: Iterable[Rule], form: RuleFormat) -> str:
    """Format rules as a file, in order. Raises InputInvalid for a rule that the text form cannot express."""
    return export_documents([rule.document for rule in rules], form)


def export_documents(documents: Sequence[Mapping[str, object]], form: RuleFormat) -> str:
    """Format rules' documents as a file. Raises InputInvalid, as `export_rules` does."""
    match form:
        case RuleFormat.JSON:
            listed = b"[" + b",".join(map(encode_document, documents)) + b"]"
            return msgspec.json.format(listed, indent=2).decode() + "\n"
        case RuleFormat.YAML:
            plain = [dict(document) for document in documents]
            return yaml.dump(plain, Dumper=_ExactDumper, sort_keys=False, allow_unicode=True, width=100)
        case RuleFormat.TEXT:
            return "".join(f"{_text_line(document)}\n" for document in documents)


def describe(rule: Rule) -> str:
    """Describe a rule in one line: `SUM(paymentAmount) > 20000 in 20 min per payeeId where ..., evaluated when ...`.

    The pages have the same line (`ruleFormula` in format.ts); tests/corpus/rule_lines.json has cases for both.
    """
    keys = f"per {', '.join(rule.grouping)}" if rule.grouping else "over all transactions"
    parts = []
    if rule.has_aggregate:
        past = rule.baseline
        limit = rule.limit_text if past is None else _compared_with(past, rule.limit_text, rule.operator)
        parts.append(f"{_aggregate(rule, limit)} {keys}{_where(rule.filter)}")
    if rule.conditions:
        listed = "; ".join(map(_condition, rule.conditions))
        conditions = f"{required_text(rule)} of [{listed}]"
        parts.append(conditions if rule.has_aggregate else f"{conditions} {keys}")
    sentence = ", and ".join(parts)
    selected = rule.when if rule.has_aggregate else rule.when or rule.filter
    if selected is not None:
        sentence += f", evaluated when {selected}"
    return sentence if rule.rollout is None else f"{sentence}, for {rule.rollout.percent} % of the keys"


def _condition(of: Condition) -> str:
    if isinstance(of, NamedRule):
        return f"rule {of.rule_id}"
    return f"{_aggregate(of, of.limit_text)}{_where(of.filter)}"


def _where(row_filter: Predicate | None) -> str:
    return "" if row_filter is None else f" where {row_filter}"


def _aggregate(of: Rule | AggregateCondition, limit: str) -> str:
    """Describe an aggregate with its limit and window: `SUM(paymentAmount) > 20000 in 20 min`."""
    aggregated = "COUNT_FLINK" if of.aggregates_ones else of.aggregate_field or ", ".join(of.unique)
    return f"{of.aggregate_function.value}({aggregated}) {of.operator.value} {limit} in {_window(of.window)}"


def _window(window: Window) -> str:
    steps = f" in steps of {duration(window.step_ms)}" if window.is_long else ""
    return window.calendar_text or f"{duration(window.reach_ms)}{steps}"


def _compared_with(baseline: Baseline, limit: str, operator: Operator) -> str:
    """Describe the value with which a rule compares its aggregate: `3 x SUM(paymentAmount) of the 1 h before`."""
    before = f"of the {duration(baseline.window_ms)} before"
    of = "COUNT_FLINK" if baseline.aggregates_ones else baseline.aggregate_field or ""
    filtered = _where(baseline.filter)
    if baseline.deviations:
        sign = "+" if operator in (Operator.GREATER, Operator.GREATER_EQUAL) else "-"
        return f"mean({of}) {sign} {limit} deviations {before}{filtered}"
    return f"{limit} x {baseline.aggregate_function.value}({of}) {before}{filtered}"


def duration(length_ms: int) -> str:
    """Format a length of time in the largest unit that divides it: `90 s`, `2 h`."""
    unit_ms, unit = next(((ms, name) for ms, name in _UNITS_MS if length_ms % ms == 0), (1, "ms"))
    return f"{length_ms // unit_ms} {unit}"


def _text_line(document: Mapping[str, object]) -> str:
    lost = [name for name in _NOT_IN_TEXT if name in document]
    if "limit" in document and decimal_of(document["limit"]) is None:
        lost.append("an expression as its limit")
    if lost:
        has = f"rule {document['ruleId']} has {', '.join(lost)}"
        raise InputInvalid(f"{has}, which cannot be expressed in one line: export json or yaml")
    return ",".join(_token(name, document.get(name)) for name in _TEXT_MEMBERS)


def _token(name: str, value: object) -> str:
    if name == "ruleId":
        return str(value)
    if isinstance(value, list):
        value = "&".join(map(str, value))
    elif isinstance(value, Decimal):
        value = f"{value:f}"
    return "" if value in (None, "") else f"({str(value).lower() if name == 'ruleState' else value})"


class _ExactDumper(yaml.CSafeDumper):
    """A YAML dumper that keeps the digits of numbers."""


def _represent_decimal(dumper: yaml.CSafeDumper, number: Decimal) -> yaml.ScalarNode:
    text = f"{number:f}"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{'float' if '.' in text else 'int'}", text)


_ExactDumper.add_representer(Decimal, _represent_decimal)
