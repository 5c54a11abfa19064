"""Compares the alerts of two rules, such as a shadow rule and the live rule that it may replace."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import ComparedPayments, RuleComparison
from fraud_control.service.items.heads import rule_head
from fraud_control.service.reading.approval_figures import unchanged_since_ms
from fraud_control.service.reading.verdicts import verdict_of_alert, with_verdicts
from fraud_control.store.alert_models import IN_EFFECT, AlertPaymentRow, AlertRow
from fraud_rules.model.day import DAY_MS
from fraud_rules.model.expressions.rollout import ALL_KEYS, share_of
from fraud_rules.runtime.safe_text import scalar_text

_ALERTING: Final = (StateName.ACTIVE, StateName.SHADOW)
_PAYMENTS: Final = ""


def compare(session: Session, rule_id: int, other_id: int, now_ms: int, alert_days: int) -> RuleComparison | None:
    """Count the payments for which both rules alert, or only one of them, since both have their present content and
    state. None if the detector does not evaluate one of them so that it alerts.

    Rules of one grouping are compared over the keys that are in the rollouts of both. The alert index has the alerts of
    the last `alert_days` days.

    Raises NotFound.
    """
    starts_ms = [_alerts_since_ms(session, each) for each in (rule_id, other_id)]
    begun_ms = [each for each in starts_ms if each is not None]
    if len(begun_ms) < len(starts_ms):
        return None
    since_ms = max(*begun_ms, now_ms - alert_days * DAY_MS)
    columns = select(AlertRow.rule_id, AlertRow.key, AlertPaymentRow.transaction_id, verdict_of_alert())
    query = with_verdicts(columns).where(
        AlertRow.rule_id.in_((rule_id, other_id)), AlertRow.append_ms >= since_ms, IN_EFFECT
    )
    is_common = _common_keys(session, rule_id, other_id)
    rules: defaultdict[str, set[int]] = defaultdict(set)
    verdicts: defaultdict[str, set[str | None]] = defaultdict(set)
    for of_rule, key, payment, verdict in session.execute(query):
        if is_common(key):
            rules[payment].add(of_rule)
            verdicts[payment].add(verdict)
    counts: defaultdict[frozenset[int], Counter[str]] = defaultdict(Counter)
    for payment, alerting in rules.items():
        counts[frozenset(alerting)].update([_PAYMENTS, *filter(None, verdicts[payment])])
    return RuleComparison(
        since_ms=since_ms,
        until_ms=now_ms,
        both=_compared(counts[frozenset({rule_id, other_id})]),
        only_this=_compared(counts[frozenset({rule_id})]),
        only_other=_compared(counts[frozenset({other_id})]),
    )


def _compared(counts: Counter[str]) -> ComparedPayments:
    return ComparedPayments(payments=counts[_PAYMENTS], fraud=counts["FRAUD"], not_fraud=counts["NOT_FRAUD"])


def _common_keys(session: Session, *rule_ids: int) -> Callable[[str], bool]:
    """Whether the detector evaluates all of the rules for a key, given as canonical JSON."""
    documents = {each: document_of(rule_head(session, each).document) for each in rule_ids}
    percents = {each: document.get("rolloutPercent") or ALL_KEYS for each, document in documents.items()}
    groupings = {frozenset(document.get("groupingKeyNames") or ()) for document in documents.values()}

    @cache
    def is_common(key: str) -> bool:
        texts = [_text(value) for _, value in sorted(document_of(key).items())]
        return all(percent == ALL_KEYS or share_of(each, texts) < percent for each, percent in percents.items())

    return is_common if len(groupings) == 1 and set(percents.values()) != {ALL_KEYS} else lambda _: True


def _text(value: Any) -> str:
    return format(value.normalize(), "f") if isinstance(value, Decimal) else scalar_text(value)


def _alerts_since_ms(session: Session, rule_id: int) -> int | None:
    """The time since which a rule alerts with its present content, live or as a shadow; None if it does not."""
    state = StateName(rule_head(session, rule_id).state)
    return unchanged_since_ms(session, rule_id, state) if state in _ALERTING else None
