"""Figures for the approver of a rule: its alerts as a shadow rule, and the newest saved what-if of the same rule."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import islice
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.errors import NotFound
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import PresentFigures, ShadowFigures
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import storable_id
from fraud_control.service.reading.verdicts import reviewed_alerts
from fraud_control.store.alert_models import IN_EFFECT, AlertRow
from fraud_control.store.models import ApprovalRow, ItemHead, RevisionRow
from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import unreachable_named
from fraud_rules.batch.whatif.place import FOLDER
from fraud_rules.codec.rules.members import REMARKS
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.model.day import DAY_MS

EVALUATED: Final = (None, StateName.ACTIVE.value, StateName.SIGNAL.value, StateName.SHADOW.value)
"""The targets of requests after which the detector evaluates the rule. None: an edit or a rollback."""
_MOST_READ: Final = 20
_PRESENT_DAYS: Final = 7
_LEAST_MS: Final = 3_600_000
_STATE: Final = "ruleState"
_WITHOUT_EFFECT: Final = frozenset({*REMARKS, _STATE, "ruleId", "action", "weight", "source", "force"})
"""The members that do not decide when a rule fires: only how its alerts look and what they cause."""

_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


def approval_figures(
    work: UnitOfWork, approval_id: int
) -> tuple[dict[str, Any], ShadowFigures | None, PresentFigures | None]:
    """Read the rule of a request, without its state, its figures as a shadow rule, and the figures of the active rule
    that the request changes. Raises NotFound, for a request about a list too.
    """
    session, days = work.session, work.settings.bounds.alert_days
    request = session.get(ApprovalRow, storable_id(approval_id))
    if request is None or request.rule_id is None:
        raise NotFound(f"approval {approval_id} of a rule does not exist")
    document = requested_rule(request)
    shadow = shadow_figures(session, document, request.requested_by, work.now_ms, days)
    return document, shadow, present_figures(session, request.rule_id, work.now_ms, days)


def requested_rule(request: ApprovalRow) -> dict[str, Any]:
    """The rule of a request for approval, without its state."""
    return _content(document_of(request.document)) | {"ruleId": request.rule_id}


def rule_to_evaluate(session: Session, rule_id: int) -> dict[str, Any] | None:
    """The rule of an open request after which the detector evaluates the rule, without its state. Else None."""
    head = session.get(ItemHead, ItemName.of_rule(rule_id))
    request = None if head is None or head.approval_id is None else session.get(ApprovalRow, head.approval_id)
    if request is None or request.target not in EVALUATED:
        return None
    return requested_rule(request)


def shadow_figures(
    session: Session, document: Mapping[str, Any], requester: str, now_ms: int, alert_days: int
) -> ShadowFigures | None:
    """Count the shadow alerts of a rule since it became a shadow rule with this document, and their marks: all, and
    those by the requester. None if it is no shadow rule.

    The alert index has the alerts of the last `alert_days` days.
    """
    rule_id = document["ruleId"]
    since_ms = unchanged_since_ms(session, rule_id, StateName.SHADOW, fires_of(document))
    if since_ms is None:
        return None
    since_ms = max(since_ms, now_ms - alert_days * DAY_MS)
    wanted = AlertRow.rule_id == rule_id, AlertRow.shadow.is_(True), AlertRow.append_ms >= since_ms
    alerts = session.scalar(select(func.count()).select_from(AlertRow).where(*wanted)) or 0
    (fraud, own_fraud), (not_fraud, own_not_fraud) = reviewed_alerts(session, wanted, requester)
    return ShadowFigures(
        since_ms=since_ms,
        until_ms=now_ms,
        alerts=alerts,
        fraud=fraud,
        not_fraud=not_fraud,
        by_requester=own_fraud + own_not_fraud,
    )


def present_figures(session: Session, rule_id: int, now_ms: int, alert_days: int) -> PresentFigures | None:
    """Count the alerts of an active rule since it has its present content; None if it is not active.

    A count of less than an hour is no rate yet, so an hour is the least time.
    """
    since_ms = unchanged_since_ms(session, rule_id, StateName.ACTIVE)
    if since_ms is None:
        return None
    since_ms = max(since_ms, now_ms - min(_PRESENT_DAYS, alert_days) * DAY_MS)
    wanted = live_alerts(rule_id, since_ms)
    alerts = session.scalar(select(func.count()).select_from(AlertRow).where(*wanted)) or 0
    per_day = alerts * DAY_MS / max(now_ms - since_ms, _LEAST_MS)
    return PresentFigures(since_ms=since_ms, until_ms=now_ms, alerts=alerts, alerts_per_day=round(per_day, 2))


def live_alerts(rule_id: int, since_ms: int) -> tuple[ColumnElement[bool], ...]:
    """The conditions for the live alerts of a rule from a time on that count."""
    return AlertRow.rule_id == rule_id, AlertRow.shadow.is_(False), AlertRow.append_ms >= since_ms, IN_EFFECT


def unchanged_since_ms(
    session: Session, rule_id: int, state: StateName, content: dict[str, Any] | None = None
) -> int | None:
    """The time since which a rule is in this state with this content (None: its present one); None if it is not."""
    revisions = select(RevisionRow).where(RevisionRow.concerns(ItemName.of_rule(rule_id)))
    since_ms: int | None = None
    for row in session.scalars(revisions.order_by(RevisionRow.revision.desc())).yield_per(100):
        fires = fires_of(document_of(row.document))
        content = fires if content is None else content
        if row.state != state.value or fires != content:
            break
        since_ms = row.at_ms
    return since_ms


def saved_what_if(archive: ArchivePath, document: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Find the newest saved what-if of a rule with this document: the name of its report, and its result.

    Before a rule is saved, its what-if has the id that it gets, unless another rule gets it first. Only the newest
    reports of the id are read. Raises ArchiveUnreachable.
    """
    rule_id, wanted = document["ruleId"], fires_of(document)
    with unreachable_named(archive):
        folders: list[ArchivePath] = [*(archive / FOLDER).glob(f"*-rule-{rule_id}")]
    folders.sort(key=lambda folder: folder.name, reverse=True)
    for folder in islice(folders, _MOST_READ):
        try:
            with unreachable_named(folder):
                result = _decode((folder / "result.json").read_bytes())
        except (OSError, *UNDECODABLE):
            continue  # a report that is removed, or not written completely
        rule = result.get("rule")
        if isinstance(rule, dict) and fires_of(rule) == wanted:
            return folder.name, result
    return None


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a rule except its state."""
    return {name: value for name, value in document.items() if name != _STATE}


def fires_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a rule that decide when it fires. Evidence about a rule holds while these are equal."""
    return {name: value for name, value in document.items() if name not in _WITHOUT_EFFECT}
