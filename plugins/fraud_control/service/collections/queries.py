"""Reads lists from the store: all lists, the values of one list, its revisions and their differences."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.collection_input import check_size, list_change
from fraud_control.domain.collection_models import (
    CollectionDiff,
    CollectionInput,
    CollectionRevision,
    CollectionUse,
    ListedValue,
    StoredList,
)
from fraud_control.domain.errors import Invalid, NotFound
from fraud_control.domain.item import LIST, ItemName
from fraud_control.domain.read_models import Approval, Page
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.expiries import expiries_of, expiry_counts
from fraud_control.service.collections.summary import summary_of
from fraud_control.service.collections.uses import uses_by_name, uses_of
from fraud_control.service.ids import check_page, storable_id
from fraud_control.service.items.heads import in_use, is_published, list_head, pending
from fraud_control.service.pages import newest_first
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.models import ItemHead, RevisionRow
from fraud_rules.codec.rules.collections.files import export_collections
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.model.value_list import ListOperation, ListType, ListValue, ValueList

__all__ = [
    "containing",
    "detail",
    "diff",
    "difference",
    "export",
    "export_all",
    "preview",
    "revisions",
    "rows",
    "values",
]

_SHOWN_VALUES: Final = 1_000


def rows(work: UnitOfWork) -> tuple[StoredList, ...]:
    """The lists that are not deleted, by name."""
    session, reader = work.session, work.reader
    heads = session.scalars(select(ItemHead).where(in_use(LIST)).order_by(ItemHead.item_key)).all()
    uses, expiries, requests = uses_by_name(session, reader), expiry_counts(session), pending(session, heads)
    return tuple(_row(head, uses.get(head.item_key, ()), expiries, requests) for head in heads)


def detail(work: UnitOfWork, name: str) -> StoredList:
    """Read a list. Raises NotFound."""
    session, head = work.session, list_head(work.session, name)
    return _row(head, uses_of(session, work.reader, name), expiry_counts(session), pending(session, [head]))


def values(
    work: UnitOfWork, name: str, *, query: str = "", limit: int = 200, cursor: str | None = None
) -> Page[ListedValue]:
    """List the values of a list that contain the text `query`, in order, from the first one above the value `cursor`.

    Raises NotFound, Invalid.
    """
    check_page(limit, work.settings.bounds.page, query)
    query, known = query.strip(), _known(work, name)
    ordered = work.contents.sorted_values(known)
    start = 0 if cursor is None else bisect_right(ordered, _cursor(known, cursor))
    found: list[ListValue] = []
    for position in range(start, len(ordered)):
        if not query or query in str(ordered[position]):
            found.append(ordered[position])
            if len(found) > limit:
                break
    shown = found[:limit]
    expiries = expiries_of(work.session, name, shown)
    items = tuple(ListedValue(value=str(each), expires_at_ms=expiries.get(str(each))) for each in shown)
    return Page(items, str(shown[-1]) if len(found) > limit else None)


def containing(work: UnitOfWork, value: ListValue) -> list[str]:
    """The names of the lists that contain a value, in order."""
    kind = ListType.LONG if isinstance(value, int) else ListType.STRING
    heads = work.session.scalars(select(ItemHead).where(in_use(LIST)).order_by(ItemHead.item_key)).all()
    names = [head.item_key for head in heads if summary_of(head).type is kind]
    lists = [work.contents.current(work.session, name) for name in names]
    return [each.name for each in lists if each is not None and each.contains(value)]


def revisions(work: UnitOfWork, name: str, *, limit: int = 200, before: int | None = None) -> Page[CollectionRevision]:
    """List the changes of a list below revision `before`, newest first. A deleted list keeps its changes. Raises
    NotFound, Invalid.
    """
    _check_known(work.session, name)
    wanted = select(RevisionRow).where(RevisionRow.concerns(ItemName.of_list(name)), RevisionRow.part == 0)
    page = newest_first(work, wanted, RevisionRow.revision, limit, before)
    versions = _last_versions(work.session, name, [row.revision for row in page.items])
    return Page(tuple(_revision(row, versions[row.revision]) for row in page.items), page.next)


def diff(work: UnitOfWork, name: str, before: int, after: int) -> CollectionDiff:
    """Compare the values of a list after two revisions. Revision 0 stands for no values. Raises NotFound."""
    _check_known(work.session, name)
    return difference(*(_at(work, name, revision) for revision in (before, after)))


def preview(store: StoreAccess, name: str, collection_input: CollectionInput) -> CollectionDiff:
    """The values that a change would add and remove. Raises NotFound, and Invalid for invalid values.

    The values are parsed outside the session, so that it stays short.
    """
    check_size(collection_input, store.settings.bounds.list_bytes)
    with store.reading() as work:
        value_type = summary_of(list_head(work.session, name)).type
        known = work.contents.current(work.session, name)
        before = [] if known is None else known.values()
    change = list_change(name, collection_input, value_type, SOURCE, store.reader.limits)
    given = change.values()
    after = {
        ListOperation.SET: set(given),
        ListOperation.ADD: {*before, *given},
        ListOperation.REMOVE: {*before}.difference(given),
        ListOperation.DELETE: set(),
    }[change.operation]
    return difference(before, sorted(after))


def difference(before: Sequence[ListValue], after: Sequence[ListValue]) -> CollectionDiff:
    """Compare the sorted values of two versions of a list."""
    known, wanted = set(before), set(after)
    added = [value for value in after if value not in known]
    removed = [value for value in before if value not in wanted]
    return CollectionDiff(
        added=len(added),
        removed=len(removed),
        added_values=[str(value) for value in added[:_SHOWN_VALUES]],
        removed_values=[str(value) for value in removed[:_SHOWN_VALUES]],
    )


def export(work: UnitOfWork, name: str) -> str:
    """The values of a list in order, one per line. Raises NotFound."""
    ordered = work.contents.sorted_values(_known(work, name))
    return "".join(f"{value}\n" for value in ordered)


def export_all(work: UnitOfWork, form: RuleFormat) -> str:
    """All lists by name, as the text of a file. Raises Invalid for a value that the text form cannot express."""
    names = work.session.scalars(select(ItemHead.item_key).where(in_use(LIST)).order_by(ItemHead.item_key)).all()
    found = (work.contents.current(work.session, name) for name in names)
    try:
        return export_collections([each for each in found if each is not None], form)
    except InputInvalid as error:
        raise Invalid([Reason("format", str(error))]) from error


def _row(
    head: ItemHead,
    uses: Sequence[CollectionUse],
    expiries: Mapping[str, tuple[int, int]],
    requests: Mapping[int | None, Approval],
) -> StoredList:
    summary, (expiring, next_expiry_ms) = summary_of(head), expiries.get(head.item_key, (0, None))
    return StoredList(
        name=head.item_key,
        type=summary.type,
        size=summary.size,
        revision=head.revision,
        source=head.source,
        updated_at_ms=head.updated_at_ms,
        updated_by=head.updated_by,
        published=is_published(head),
        rules=list(uses),
        expiring=expiring,
        next_expiry_ms=next_expiry_ms,
        log_version=head.log_version,
        pending=requests.get(head.approval_id),
    )


def _revision(row: RevisionRow, log_version: int | None) -> CollectionRevision:
    facts = document_of(row.document)
    members = {name: getattr(row, name) for name in ("revision", "author", "at_ms", "comment", "source")}
    members |= {"expires_at_ms": facts.get("expiresAt"), "log_version": log_version}
    return CollectionRevision.model_validate({**facts, **members})


def _known(work: UnitOfWork, name: str) -> ValueList:
    list_head(work.session, name)
    known = work.contents.current(work.session, name)
    if known is None:
        raise NotFound(f"there is no list {name!a}")
    return known


def _cursor(known: ValueList, after: str) -> ListValue:
    if known.type is ListType.STRING:
        return after
    try:
        return int(after)
    except ValueError:
        raise Invalid([Reason("cursor", "is not a cursor of this list")]) from None


def _check_known(session: Session, name: str) -> None:
    if session.get(ItemHead, ItemName.of_list(name)) is None:
        raise NotFound(f"there is no list {name!a}")


def _at(work: UnitOfWork, name: str, revision: int) -> list[ListValue]:
    if revision == 0:
        return []
    if work.session.get(RevisionRow, (*ItemName.of_list(name), storable_id(revision), 0)) is None:
        raise NotFound(f"the list {name} has no revision {revision}")
    known = work.contents.at(work.session, name, revision)
    return [] if known is None else known.values()


def _last_versions(session: Session, name: str, numbers: Sequence[int]) -> Mapping[int, int | None]:
    """The offset of each revision's last record; None while a record of the revision waits."""
    wanted = RevisionRow.concerns(ItemName.of_list(name)), RevisionRow.revision.in_(numbers)
    arrived = func.count(RevisionRow.log_version)
    counted = (
        select(RevisionRow.revision, func.max(RevisionRow.log_version), func.count(), arrived)
        .where(*wanted)
        .group_by(RevisionRow.revision)
    )
    return {
        revision: version if parts == arrived else None
        for revision, version, parts, arrived in session.execute(counted)
    }
