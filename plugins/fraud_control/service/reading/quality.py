"""The quality of rules by labels: of each rule, and of the rules that alert for the same payments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, String, and_, case, cast, exists, false, func, not_, or_, select
from sqlalchemy.orm import Session

from fraud_control.domain.item import RULE
from fraud_control.domain.label_models import CombinationQuality, LabelQuality, RuleQuality
from fraud_control.domain.lifecycle import StateName
from fraud_control.service.reading.verdicts import payments_with_verdicts, verdict_of_alert
from fraud_control.store.alert_models import AlertPaymentRow
from fraud_control.store.label_models import LabelRow
from fraud_control.store.models import ItemHead, RevisionRow
from fraud_rules.model.day import DAY_MS

QUALITY_DAYS: Final = 90
"""How far back the alerts count. Most chargebacks come in this time."""

_FRAUD: Final = "FRAUD"
_NOT_FRAUD: Final = "NOT_FRAUD"
_DELETED: Final = StateName.DELETE.value
_RATE_DAYS: Final = 7
_MOST_COMBINATIONS: Final = 50


@dataclass(frozen=True, slots=True)
class NoisyRule:
    """The payments of a rule, those with a label, and the rate of its live alerts."""

    payments: int = 0
    fraud: int = 0
    not_fraud: int = 0
    alerts_per_day: float = 0.0

    @property
    def precision(self) -> float | None:
        """The share of frauds among the labelled payments; None without any."""
        labelled = self.fraud + self.not_fraud
        return round(self.fraud / labelled, 4) if labelled else None

    @property
    def false_alerts_per_day(self) -> float:
        """The expected number of false alerts in a day. Without labels, half of the alerts count as false: the share is
        that of Laplace's rule of succession."""
        return round(self.alerts_per_day * (self.not_fraud + 1) / (self.fraud + self.not_fraud + 2), 2)


@dataclass(slots=True)
class _Sums:
    """Counts of payments by verdict, with the sums of their amounts."""

    payments: int = 0
    fraud: int = 0
    not_fraud: int = 0
    amount: float | None = None
    fraud_amount: float | None = None

    def add(self, verdict: str | None, payments: int, amount: float | None) -> None:
        """Add payments of one verdict, None for those without."""
        self.payments += payments
        self.amount = _sum(self.amount, amount)
        if verdict == _FRAUD:
            self.fraud += payments
            self.fraud_amount = _sum(self.fraud_amount, amount)
        elif verdict == _NOT_FRAUD:
            self.not_fraud += payments

    def members(self, frauds: int) -> dict[str, Any]:
        """The members of `LabelledPayments`, among so many labelled frauds."""
        labelled = self.fraud + self.not_fraud
        return {
            "payments": self.payments,
            "fraud": self.fraud,
            "not_fraud": self.not_fraud,
            "unlabelled": round(1 - labelled / self.payments, 4) if self.payments else 0.0,
            "precision": round(self.fraud / labelled, 4) if labelled else None,
            "recall": round(self.fraud / frauds, 4) if frauds else None,
            "amount": amount_text(self.amount),
            "fraud_amount": amount_text(self.fraud_amount),
        }


def noisy_rules(session: Session, now_ms: int) -> Mapping[int, NoisyRule]:
    """The rules with alerts in the last 90 days, by id."""
    rates, sums = _rates(session, now_ms), _sums_by_rule(session, now_ms)
    return {rule_id: _noisy(found, rates.get(rule_id, 0.0)) for rule_id, found in sums.items()}


def _noisy(found: _Sums, alerts_per_day: float) -> NoisyRule:
    return NoisyRule(found.payments, found.fraud, found.not_fraud, alerts_per_day)


def label_quality(session: Session, now_ms: int) -> LabelQuality:
    """The quality of all rules with alerts in the last 90 days, and of their combinations. The rules with the most
    expected false alerts come first."""
    by_rules, found_frauds = _sums_by_rules(session, now_ms)
    frauds = found_frauds + _frauds_without_alert(session, now_ms)
    rates, sums = _rates(session, now_ms), _sums_by_rule(session, now_ms)
    rules = []
    for rule_id, of_rule in sums.items():
        noise = _noisy(of_rule, rates.get(rule_id, 0.0))
        rules.append(
            RuleQuality(
                rule_id=rule_id,
                alerts_per_day=noise.alerts_per_day,
                false_alerts_per_day=noise.false_alerts_per_day,
                **of_rule.members(frauds),
            )
        )
    rules.sort(key=lambda each: (-each.false_alerts_per_day, each.rule_id))
    most = sorted(by_rules.items(), key=lambda each: (-each[1].payments, each[0]))[:_MOST_COMBINATIONS]
    combinations = [CombinationQuality(rule_ids=list(ids), **found.members(frauds)) for ids, found in most]
    since_ms = now_ms - QUALITY_DAYS * DAY_MS
    return LabelQuality(since_ms=max(0, since_ms), frauds=frauds, rules=rules, combinations=combinations)


def _counted(session: Session, now_ms: int, days: int) -> ColumnElement[bool]:
    """The condition for the alerts of the last days that count. Those of a deleted rule do not count for a new one
    with its number."""
    same_item = and_(ItemHead.kind == RevisionRow.kind, ItemHead.item_key == RevisionRow.item_key)
    deletions = (
        select(ItemHead.number, func.max(RevisionRow.log_version))
        .join(RevisionRow, same_item)
        .where(ItemHead.kind == RULE, RevisionRow.state == _DELETED, ItemHead.state != _DELETED)
        .group_by(ItemHead.number)
    )
    earlier = [
        and_(AlertPaymentRow.rule_id == rule_id, AlertPaymentRow.rule_version <= version)
        for rule_id, version in session.execute(deletions)
    ]
    return and_(
        AlertPaymentRow.append_ms >= now_ms - days * DAY_MS, AlertPaymentRow.in_effect, not_(or_(false(), *earlier))
    )


def _sums_by_rule(session: Session, now_ms: int) -> defaultdict[int, _Sums]:
    verdict = verdict_of_alert()
    payments = func.count(AlertPaymentRow.transaction_id.distinct())
    columns = select(AlertPaymentRow.rule_id, verdict, payments, func.sum(AlertPaymentRow.amount))
    query = payments_with_verdicts(columns).where(_counted(session, now_ms, QUALITY_DAYS))
    found: defaultdict[int, _Sums] = defaultdict(_Sums)
    for rule_id, of_verdict, count, amount in session.execute(query.group_by(AlertPaymentRow.rule_id, verdict)):
        found[rule_id].add(of_verdict, count, amount)
    return found


def _sums_by_rules(session: Session, now_ms: int) -> tuple[Mapping[tuple[int, ...], _Sums], int]:
    """The payments by the rules with a live alert about them, and the number of frauds with an alert of any kind."""
    payments = _payments(session, now_ms).subquery()
    query = select(payments.c.rules, payments.c.verdict, func.count(), func.sum(payments.c.amount))
    found: defaultdict[tuple[int, ...], _Sums] = defaultdict(_Sums)
    frauds = 0
    for rules, verdict, count, amount in session.execute(query.group_by(payments.c.rules, payments.c.verdict)):
        frauds += count if verdict == _FRAUD else 0
        if rules is not None:
            found[tuple(sorted(set(map(int, rules.split(",")))))].add(verdict, count, amount)
    return found, frauds


def _payments(session: Session, now_ms: int) -> Select[Any]:
    """Each payment with the ids of the rules with a live alert, its amount, and its verdict: fraud if any alert has it,
    as analysts may disagree."""
    of_alert = verdict_of_alert()
    live = case((AlertPaymentRow.shadow.is_(False), cast(AlertPaymentRow.rule_id, String)))
    verdicts = {each: func.max(case((of_alert == each, 1), else_=0)) == 1 for each in (_FRAUD, _NOT_FRAUD)}
    columns = select(
        func.aggregate_strings(live, ",").label("rules"),
        func.max(AlertPaymentRow.amount).label("amount"),
        case(*((holds, name) for name, holds in verdicts.items())).label("verdict"),
    )
    return (
        payments_with_verdicts(columns)
        .where(_counted(session, now_ms, QUALITY_DAYS))
        .group_by(AlertPaymentRow.transaction_id)
    )


def _frauds_without_alert(session: Session, now_ms: int) -> int:
    """The payments without an alert that a label of the last 90 days calls a fraud."""
    alerted = exists().where(AlertPaymentRow.transaction_id == LabelRow.transaction_id)
    since_ms = now_ms - QUALITY_DAYS * DAY_MS
    query = select(func.count()).where(LabelRow.verdict == _FRAUD, LabelRow.at_ms >= since_ms, ~alerted)
    return session.scalar(query) or 0


def _rates(session: Session, now_ms: int) -> Mapping[int, float]:
    """The live alerts a day in the last week, or since a rule's first one, but at least a day."""
    query = (
        select(AlertPaymentRow.rule_id, func.count(), func.min(AlertPaymentRow.append_ms))
        .where(_counted(session, now_ms, _RATE_DAYS), AlertPaymentRow.shadow.is_(False))
        .group_by(AlertPaymentRow.rule_id)
    )
    return {rule_id: alerts_per_day(count, first_ms, now_ms) for rule_id, count, first_ms in session.execute(query)}


def _sum(known: float | None, more: float | None) -> float | None:
    return known if more is None else (known or 0.0) + more


def alerts_per_day(alerts: int, since_ms: int, until_ms: int) -> float:
    """The rate of alerts in a time, which counts as a day at least."""
    return round(alerts * DAY_MS / max(until_ms - since_ms, DAY_MS), 2)


def amount_text(amount: float | None) -> str | None:
    """A sum of amounts with two decimals; None without an amount."""
    return None if amount is None else str(Decimal(repr(float(amount))).quantize(Decimal("0.01")))
