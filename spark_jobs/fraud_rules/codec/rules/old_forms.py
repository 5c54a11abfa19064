"""Finds the rules in force that only earlier editions of the language allowed. They keep their meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fraud_rules.codec.rules.codec import parse_rule_document
from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import TransactionSchema


def old_form_reports(rules: Iterable[Rule], schema: TransactionSchema, limits: RuleLimits) -> Iterator[str]:
    """Yield a message for each of these rules whose next edit is rejected unless it changes the old forms."""
    for rule in rules:
        try:
            parse_rule_document(rule.document, schema, limits)
        except RuleRejected as rejected:
            yield f"rule {rule.rule_id} keeps its old meaning until its next edit, which must change this: {rejected}"
