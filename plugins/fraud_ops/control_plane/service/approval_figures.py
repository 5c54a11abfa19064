"""Figures for the approver of a rule: its alerts as a shadow rule, and the newest saved what-if of the same rule."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import islice, takewhile
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from fraud_ops.control_plane.domain.canonical import document_of
from fraud_ops.control_plane.domain.errors import NotFound
from fraud_ops.control_plane.domain.lifecycle import StateName
from fraud_ops.control_plane.domain.read_models import ShadowFigures
from fraud_ops.control_plane.domain.rule_input import UNSAVED_ID
from fraud_ops.control_plane.store.alert_models import AlertRow, AlertValueRow
from fraud_ops.control_plane.store.label_models import LabelRow
from fraud_ops.control_plane.store.models import ApprovalRow, MarkRow, RevisionRow
from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import unreachable_named
from fraud_rules.batch.whatif.place import FOLDER
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.model.schema import ID_FIELD

__all__ = ["requested_rule", "saved_what_if", "shadow_figures"]

_DAY_MS: Final = 86_400_000
_MOST_READ: Final = 20
_STATE: Final = "ruleState"

_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


def requested_rule(session: Session, approval_id: int) -> dict[str, Any]:
    """The rule of a request for approval, without its state. Raises NotFound for a request about a list too."""
    request = session.get(ApprovalRow, approval_id)
    if request is None or request.rule_id is None:
        raise NotFound(f"approval {approval_id} of a rule does not exist")
    return _content(document_of(request.document)) | {"ruleId": request.rule_id}


def shadow_figures(
    session: Session, document: Mapping[str, Any], now_ms: int, alert_days: int, *, text_ids: bool
) -> ShadowFigures | None:
    """Count the shadow alerts of a rule since it became a shadow rule with this document; None if it is none.

    The alert index has the alerts of the last `alert_days` days. Of an alert's mark and the label of its transaction,
    the newer one counts. `text_ids`: transaction ids are texts.
    """
    rule_id = document["ruleId"]
    newest_first = select(RevisionRow).where(RevisionRow.rule_id == rule_id).order_by(RevisionRow.revision.desc())
    same = list(takewhile(lambda each: _is_shadow_of(each, document), session.scalars(newest_first)))
    if not same:
        return None
    since_ms = max(same[-1].at_ms, now_ms - alert_days * _DAY_MS)
    wanted = AlertRow.rule_id == rule_id, AlertRow.shadow.is_(True), AlertRow.append_ms >= since_ms
    alerts = session.scalar(select(func.count()).select_from(AlertRow).where(*wanted)) or 0
    verdict = _verdict()
    reviewed = (
        select(verdict, func.count())
        .select_from(AlertRow)
        .outerjoin(MarkRow, MarkRow.alert_id == AlertRow.alert_id)
        .outerjoin(AlertValueRow, (AlertValueRow.alert_id == AlertRow.alert_id) & (AlertValueRow.field == ID_FIELD))
        .outerjoin(LabelRow, _indexed_id(text_ids=text_ids) == AlertValueRow.value)
        .where(*wanted)
    )
    verdicts = {found: int(count) for found, count in session.execute(reviewed.group_by(verdict))}
    return ShadowFigures(
        since_ms=since_ms,
        until_ms=now_ms,
        alerts=alerts,
        fraud=verdicts.get("FRAUD", 0),
        not_fraud=verdicts.get("NOT_FRAUD", 0),
    )


def _verdict() -> ColumnElement[str | None]:
    """The newer verdict of an alert: that of its mark, or that of the label of its transaction."""
    is_newer = MarkRow.at_ms.is_(None) | (LabelRow.at_ms >= MarkRow.at_ms)
    return case((LabelRow.at_ms.is_not(None) & is_newer, LabelRow.verdict), else_=MarkRow.verdict)


def _indexed_id(*, text_ids: bool) -> ColumnElement[str]:
    """The id of a labelled transaction as the alert index has it. The index has texts in lower case."""
    return func.lower(LabelRow.transaction_id) if text_ids else LabelRow.transaction_id.expression


def saved_what_if(archive: ArchivePath, document: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Find the newest saved what-if of a rule with this document: the name of its report, and its result.

    The user may have run it before the rule was saved and got its id. Only the newest reports of both ids are read.
    Raises ArchiveUnreachable.
    """
    rule_id = document["ruleId"]
    with unreachable_named(archive):
        found = {each: [*(archive / FOLDER).glob(f"*-rule-{each}")] for each in {rule_id, UNSAVED_ID}}
    folders: list[ArchivePath] = [folder for each in found.values() for folder in each]
    folders.sort(key=lambda folder: folder.name, reverse=True)
    for folder in islice(folders, _MOST_READ):
        try:
            with unreachable_named(folder):
                result = _decode((folder / "result.json").read_bytes())
        except (OSError, *UNDECODABLE):
            continue  # a report that is removed, or not written completely
        rule = result.get("rule")
        if isinstance(rule, dict) and _content(rule) | {"ruleId": rule_id} == document:
            return folder.name, result
    return None


def _is_shadow_of(revision: RevisionRow, document: Mapping[str, Any]) -> bool:
    content = _content(document_of(revision.document)) | {"ruleId": revision.rule_id}
    return revision.state == StateName.SHADOW.value and content == document


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a rule except its state."""
    return {name: value for name, value in document.items() if name != _STATE}
