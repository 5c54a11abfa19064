"""Compares the alerts of two rules, such as a shadow rule and the live rule that it may replace."""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import ComparedPayments, RuleComparison
from fraud_control.service.items.heads import rule_head
from fraud_control.service.reading.approval_figures import unchanged_since_ms
from fraud_control.service.reading.verdicts import verdict_of_alert, with_verdicts
from fraud_control.store.alert_models import IN_EFFECT, AlertPaymentRow, AlertRow
from fraud_rules.model.day import DAY_MS

__all__ = ["compare"]

_ALERTING: Final = (StateName.ACTIVE, StateName.SHADOW)
_VERDICTS: Final = ("FRAUD", "NOT_FRAUD")


def compare(session: Session, rule_id: int, other_id: int, now_ms: int, alert_days: int) -> RuleComparison | None:
    """Count the payments for which both rules alert, or only one of them, since both have their present content and
    state. None if the detector does not evaluate one of them so that it alerts.

    The alert index has the alerts of the last `alert_days` days.

    Raises NotFound.
    """
    starts_ms = [_alerts_since_ms(session, each) for each in (rule_id, other_id)]
    begun_ms = [each for each in starts_ms if each is not None]
    if len(begun_ms) < len(starts_ms):
        return None
    since_ms = max(*begun_ms, now_ms - alert_days * DAY_MS)
    verdict = verdict_of_alert()
    fraud, not_fraud = (func.max(_one_if(verdict == each)) for each in _VERDICTS)
    payments = (
        with_verdicts(
            select(
                func.max(_one_if(AlertRow.rule_id == rule_id)).label("mine"),
                func.max(_one_if(AlertRow.rule_id == other_id)).label("others"),
                fraud.label("fraud"),
                not_fraud.label("not_fraud"),
            )
        )
        .where(AlertRow.rule_id.in_((rule_id, other_id)), AlertRow.append_ms >= since_ms, IN_EFFECT)
        .group_by(AlertPaymentRow.transaction_id)
        .subquery()
    )
    rows = select(
        payments.c.mine, payments.c.others, func.count(), func.sum(payments.c.fraud), func.sum(payments.c.not_fraud)
    ).group_by(payments.c.mine, payments.c.others)
    found = {
        (bool(mine), bool(others)): ComparedPayments(
            payments=int(count), fraud=int(of_fraud or 0), not_fraud=int(of_others or 0)
        )
        for mine, others, count, of_fraud, of_others in session.execute(rows)
    }
    none = ComparedPayments(payments=0, fraud=0, not_fraud=0)
    return RuleComparison(
        since_ms=since_ms,
        until_ms=now_ms,
        both=found.get((True, True), none),
        only_this=found.get((True, False), none),
        only_other=found.get((False, True), none),
    )


def _alerts_since_ms(session: Session, rule_id: int) -> int | None:
    """The time since which a rule alerts with its present content, live or as a shadow; None if it does not."""
    state = StateName(rule_head(session, rule_id).state)
    return unchanged_since_ms(session, rule_id, state) if state in _ALERTING else None


def _one_if(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return case((condition, 1), else_=0)
