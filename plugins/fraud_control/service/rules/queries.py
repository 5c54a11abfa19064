"""Reads rules from the store: lists, details, versions, differences, export files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.errors import Invalid, NotFound
from fraud_control.domain.item import RULE, ItemName
from fraud_control.domain.lifecycle import StateName, transitions_from
from fraud_control.domain.read_models import (
    Approval,
    Change,
    Document,
    Page,
    Revision,
    RuleUse,
    RuleWithForms,
    StoredRule,
)
from fraud_control.domain.rule_input import RuleReader, differences
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import check_page, parse_cursor, storable_id
from fraud_control.service.items.heads import in_use, is_published, pending, rule_head
from fraud_control.service.pages import newest_first
from fraud_control.service.rules.naming import naming_rules, rules_in
from fraud_control.store.models import ApprovalRow, ItemHead, RevisionRow
from fraud_rules.codec.rules.export import RuleFormat, export_documents
from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.engine.admission.cpu_cost import estimate_cpu_ns
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.model.rule import Rule

_IN_LOG: Final = tuple(state for state in StateName if state.in_log)
_ITEMS_KEPT: Final = 16_384


def rows(
    work: UnitOfWork, *, state: StateName | None = None, query: str = "", limit: int = 200, cursor: str | None = None
) -> Page[StoredRule]:
    """List rules by id. `query` searches id, name, description and owner. Deleted rules appear only if `state` is
    DELETE.

    Raises Invalid for a malformed cursor or a limit out of bounds.
    """
    check_page(limit, work.settings.bounds.page, query)
    wanted: list[ColumnElement[bool]] = [in_use(RULE) if state is None else _in_states(state)]
    if cursor is not None:
        wanted.append(ItemHead.number > parse_cursor(cursor))
    if query.strip():
        wanted.append(ItemHead.search.contains(query.strip().lower(), autoescape=True))
    found = work.session.scalars(select(ItemHead).where(*wanted).order_by(ItemHead.number).limit(limit + 1)).all()
    shown, more = found[:limit], len(found) > limit
    requests = pending(work.session, shown)
    items = tuple(_row(head, requests.get(head.approval_id)) for head in shown)
    return Page(items, shown[-1].item_key if more else None)


def names(work: UnitOfWork) -> Sequence[tuple[int, str]]:
    """List the ids and names of all rules that are not deleted, by id. A rule without a name has an empty one."""
    found = work.session.execute(
        select(ItemHead.item_key, ItemHead.document).where(in_use(RULE)).order_by(ItemHead.number)
    )
    return [(int(key), _text_of(document_of(document), "name") or "") for key, document in found]


def detail(work: UnitOfWork, rule_id: int) -> RuleWithForms:
    """Read a rule, which may be deleted. Raises NotFound."""
    reader, head = work.reader, rule_head(work.session, rule_id)
    yaml, text, says = forms(reader, head.document, StateName(head.state))
    row = _row(head, pending(work.session, [head]).get(head.approval_id))
    rule = reader.read_stored(head.document)
    cpu_ns = None if rule is None else estimate_cpu_ns(rule)
    return RuleWithForms(
        row, yaml, text, says, head.author, transitions_from(StateName(head.state)), cpu_ns,
        named=[_use_of(work, each) for each in rules_in(reader, head.document)],
        named_by=naming_rules(work.session, reader, rule_id),
    )  # fmt: skip


def _use_of(work: UnitOfWork, rule_id: int) -> RuleUse:
    head = work.session.get(ItemHead, ItemName.of_rule(rule_id))
    if head is None:
        return RuleUse(rule_id=rule_id, name=None, state=StateName.DELETE)
    return RuleUse(rule_id=rule_id, name=_text_of(document_of(head.document), "name"), state=StateName(head.state))


def forms(reader: RuleReader, document: str, state: StateName) -> tuple[str, str | None, str]:
    """Render a document as YAML, in the one-line form (None if that form cannot express it) and in words.

    The document of a draft says SHADOW, but a draft is in no state of the rule log, so its YAML and line have no state.
    """
    members = document_of(document)
    if not state.in_log:
        members.pop("ruleState", None)
    rule = reader.read_stored(document)
    try:
        line = None if rule is None else export_documents([members], RuleFormat.TEXT).strip()
    except InputInvalid:
        line = None
    return (
        export_documents([members], RuleFormat.YAML),
        line,
        _words(reader, rule),
    )


def revisions(work: UnitOfWork, rule_id: int, *, limit: int = 200, before: int | None = None) -> Page[Revision]:
    """List the revisions of a rule that are below `before`, newest first. Raises NotFound, Invalid."""
    wanted = RevisionRow.concerns(rule_head(work.session, rule_id).item)
    page = newest_first(work, select(RevisionRow).where(wanted), RevisionRow.revision, limit, before)
    return Page(tuple(map(Revision.model_validate, page.items)), page.next)


def diff(work: UnitOfWork, rule_id: int, before: int, after: int) -> list[Change]:
    """Compare two revisions, including the state (as `ruleState`). Raises NotFound."""
    return differences(*(_of_revision(work.session, rule_id, each) for each in (before, after)))


def export(work: UnitOfWork, form: RuleFormat) -> str:
    """Write all rules but drafts and deleted rules as the text of a file.

    Raises Invalid for a rule that the one-line form cannot express.
    """
    wanted = select(ItemHead.document).where(_in_states(*_IN_LOG)).order_by(ItemHead.number)
    documents = work.session.scalars(wanted).all()
    if form is RuleFormat.YAML and documents:
        return "".join(map(_yaml_item, documents))
    try:
        return export_documents([document_of(document) for document in documents], form)
    except InputInvalid as error:
        raise Invalid([Reason("format", str(error))]) from error


def approvals(
    work: UnitOfWork, *, open_only: bool = True, limit: int = 200, before: int | None = None
) -> Page[Approval]:
    """List requests for approval with ids below `before`, newest first. Raises Invalid."""
    wanted = select(ApprovalRow).where(ApprovalRow.decision.is_(None)) if open_only else select(ApprovalRow)
    page, reader = newest_first(work, wanted, ApprovalRow.id, limit, before), work.reader
    items = tuple(
        Approval.model_validate(row).model_copy(update={"says": _words(reader, reader.read_stored(row.document))})
        for row in page.items
    )
    return Page(items, page.next)


def revision_of(session: Session, rule_id: int, revision: int) -> RevisionRow:
    """Read a revision. Raises NotFound."""
    found = session.get(RevisionRow, (*ItemName.of_rule(storable_id(rule_id)), storable_id(revision), 0))
    if found is None:
        raise NotFound(f"rule {rule_id} has no revision {revision}")
    return found


@lru_cache(_ITEMS_KEPT)
def _yaml_item(document: str) -> str:
    """Format a rule as an item of a YAML list. Viewers request the file of all rules often, and it takes long."""
    return export_documents([document_of(document)], RuleFormat.YAML)


def _in_states(*states: StateName) -> ColumnElement[bool]:
    return and_(ItemHead.kind == RULE, ItemHead.state.in_([state.value for state in states]))


def _of_revision(session: Session, rule_id: int, revision: int) -> Document:
    found = revision_of(session, rule_id, revision)
    return {**document_of(found.document), "ruleState": found.state}


def _words(reader: RuleReader, rule: Rule | None) -> str:
    """The rule in words; empty if there is none."""
    return "" if rule is None else rule_sentence(rule, reader.schema)


def _text_of(document: Document, name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) else None


def _row(head: ItemHead, request: Approval | None) -> StoredRule:
    document = document_of(head.document)
    remark = partial(_text_of, document)
    return StoredRule(
        rule_id=int(head.item_key),
        name=remark("name"),
        description=remark("description"),
        severity=remark("severity"),
        owner=remark("owner"),
        state=StateName(head.state),
        revision=head.revision,
        updated_at_ms=head.updated_at_ms,
        updated_by=head.updated_by,
        source=head.source,
        document=document,
        log_version=head.log_version,
        published=is_published(head),
        pending=request,
    )
