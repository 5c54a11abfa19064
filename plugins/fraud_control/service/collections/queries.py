"""Reads lists and maps from the store: all of a kind, the content of one, its revisions and their differences."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.collection_input import check_size, collection_change
from fraud_control.domain.collection_models import (
    CollectionDiff,
    CollectionInput,
    CollectionRevision,
    ListedValue,
    MapEntry,
    StoredCollection,
    StoredList,
    StoredMap,
)
from fraud_control.domain.errors import Invalid, NotFound
from fraud_control.domain.item import LIST, ItemName
from fraud_control.domain.read_models import Approval, Page, RuleUse
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.expiries import expiries_of, expiry_counts
from fraud_control.service.collections.summary import summary_of, type_of_head
from fraud_control.service.collections.uses import uses_by_name, uses_of
from fraud_control.service.ids import check_page, storable_id
from fraud_control.service.items.heads import collection_head, in_use, is_published, pending
from fraud_control.service.pages import newest_first
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.models import ItemHead, RevisionRow
from fraud_rules.codec.rules.collections.files import export_collections
from fraud_rules.codec.rules.collections.lines import entry_line, shown_entry
from fraud_rules.codec.rules.collections.plan import Entries
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.model.collection_history import Collection
from fraud_rules.model.value_list import ListOperation, ListType, ListValue, ValueList
from fraud_rules.model.value_map import MapType, entry_text

_SHOWN_VALUES: Final = 1_000


def rows(work: UnitOfWork, kind: str) -> tuple[StoredCollection, ...]:
    """The lists or maps that are not deleted, by name."""
    session, reader = work.session, work.reader
    heads = session.scalars(select(ItemHead).where(in_use(kind)).order_by(ItemHead.item_key)).all()
    uses, expiries, requests = (
        uses_by_name(session, reader, kind),
        expiry_counts(session, kind),
        pending(session, heads),
    )
    return tuple(_row(head, uses.get(head.item_key, ()), expiries, requests) for head in heads)


def detail(work: UnitOfWork, item: ItemName) -> StoredCollection:
    """Read a list or map. Raises NotFound."""
    session, head = work.session, collection_head(work.session, item)
    return _row(head, uses_of(session, work.reader, item), expiry_counts(session, item.kind), pending(session, [head]))


def values(
    work: UnitOfWork, item: ItemName, *, query: str = "", limit: int = 200, cursor: str | None = None
) -> Page[ListedValue] | Page[MapEntry]:
    """List the values of a list, or the entries of a map, whose value or key contains the text `query`, in order, from
    the first one above `cursor`.

    Raises NotFound, Invalid.
    """
    check_page(limit, work.settings.bounds.page, query)
    query, known = query.strip(), _known(work, item)
    ordered = work.contents.sorted_values(known)
    start = 0 if cursor is None else bisect_right(ordered, _cursor(known, cursor))
    found: list[ListValue] = []
    for position in range(start, len(ordered)):
        if not query or query in str(ordered[position]):
            found.append(ordered[position])
            if len(found) > limit:
                break
    shown = found[:limit]
    expiries, following = expiries_of(work.session, item, shown), str(shown[-1]) if len(found) > limit else None
    texts = [(str(each), expiries.get(str(each))) for each in shown]
    if isinstance(known, ValueList):
        return Page(tuple(ListedValue(value=text, expires_at_ms=at_ms) for text, at_ms in texts), following)
    entries = zip(texts, known.values_of(shown).values(), strict=True)
    return Page(
        tuple(MapEntry(key=text, value=entry_text(value), expires_at_ms=at_ms) for (text, at_ms), value in entries),
        following,
    )


def containing(work: UnitOfWork, value: ListValue, kind: str = LIST) -> list[str]:
    """The names of the lists that contain a value, or of the maps with it as a key, in order."""
    wanted = ListType.LONG if isinstance(value, int) else ListType.STRING
    heads = work.session.scalars(select(ItemHead).where(in_use(kind)).order_by(ItemHead.item_key)).all()
    typed = [(head, type_of_head(head)) for head in heads]
    found = [
        work.contents.current(work.session, head.item)
        for head, known in typed
        if (known.key if isinstance(known, MapType) else known) is wanted
    ]
    return [each.name for each in found if each is not None and each.contains(value)]


def revisions(
    work: UnitOfWork, item: ItemName, *, limit: int = 200, before: int | None = None
) -> Page[CollectionRevision]:
    """List the changes of a list or map below revision `before`, newest first. A deleted one keeps its changes. Raises
    NotFound, Invalid.
    """
    _check_known(work.session, item)
    wanted = select(RevisionRow).where(RevisionRow.concerns(item), RevisionRow.part == 0)
    page = newest_first(work, wanted, RevisionRow.revision, limit, before)
    versions = _last_versions(work.session, item, [row.revision for row in page.items])
    return Page(tuple(_revision(row, versions[row.revision]) for row in page.items), page.next)


def diff(work: UnitOfWork, item: ItemName, before: int, after: int) -> CollectionDiff:
    """Compare a list or map after two revisions. Revision 0 stands for no values. Raises NotFound."""
    _check_known(work.session, item)
    return difference(*(_at(work, item, revision) for revision in (before, after)))


def preview(store: StoreAccess, item: ItemName, collection_input: CollectionInput) -> CollectionDiff:
    """The values that a change would add and remove. Raises NotFound, and Invalid for invalid values.

    The values are parsed outside the session, so that it stays short.
    """
    check_size(collection_input, store.settings.bounds.list_bytes)
    with store.reading() as work:
        of_type = type_of_head(collection_head(work.session, item))
        known = work.contents.current(work.session, item)
        before: Entries = {} if known is None else known.entries()
    change = collection_change(item, collection_input, of_type, SOURCE, store.reader.limits)
    given: Entries = change.updates(of_type)  # type: ignore[arg-type]
    after: Entries = {
        ListOperation.SET: given,
        ListOperation.ADD: {**before, **given},
        ListOperation.REMOVE: {member: value for member, value in before.items() if member not in given},
        ListOperation.DELETE: {},
    }[change.operation]
    return difference(before, {member: after[member] for member in sorted(after)})


def difference(before: Entries, after: Entries) -> CollectionDiff:
    """Compare the sorted values or entries of two versions of a list or map."""
    added, removed = _without(after, before), _without(before, after)
    return CollectionDiff(
        added=len(added),
        removed=len(removed),
        added_values=[shown_entry(*each) for each in added[:_SHOWN_VALUES]],
        removed_values=[shown_entry(*each) for each in removed[:_SHOWN_VALUES]],
    )


def _without(entries: Entries, others: Entries) -> list[tuple[Any, Any]]:
    return [(key, value) for key, value in entries.items() if key not in others or others[key] != value]


def export(work: UnitOfWork, item: ItemName) -> str:
    """The values of a list in order, one per line; the entries of a map as CSV. Raises NotFound, and Invalid for an
    entry that needs more than one line.
    """
    known = _known(work, item)
    if isinstance(known, ValueList):
        return "".join(f"{value}\n" for value in work.contents.sorted_values(known))
    try:
        return "".join(f"{entry_line(key, value)}\n" for key, value in known.entries().items())
    except InputInvalid as error:
        raise Invalid([Reason("format", str(error))]) from error


def export_all(work: UnitOfWork, kind: str, form: RuleFormat) -> str:
    """All lists or maps by name, as a file. Raises Invalid for a value that the text form cannot express."""
    names = work.session.scalars(select(ItemHead.item_key).where(in_use(kind)).order_by(ItemHead.item_key)).all()
    found = (work.contents.current(work.session, ItemName(kind, name)) for name in names)
    try:
        return export_collections([each for each in found if each is not None], form)
    except InputInvalid as error:
        raise Invalid([Reason("format", str(error))]) from error


def _row(
    head: ItemHead,
    uses: Sequence[RuleUse],
    expiries: Mapping[str, tuple[int, int]],
    requests: Mapping[int | None, Approval],
) -> StoredCollection:
    of_type, (expiring, next_expiry_ms) = type_of_head(head), expiries.get(head.item_key, (0, None))
    stored: Callable[..., StoredCollection]
    if isinstance(of_type, MapType):
        stored = partial(StoredMap, key_type=of_type.key, value_type=of_type.value)
    else:
        stored = partial(StoredList, type=of_type)
    return stored(
        name=head.item_key,
        size=summary_of(head).size,
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


def _known(work: UnitOfWork, item: ItemName) -> Collection:
    collection_head(work.session, item)
    known = work.contents.current(work.session, item)
    if known is None:
        raise NotFound(f"there is no {item.kind} {item.key!a}")
    return known


def _cursor(known: Collection, after: str) -> ListValue:
    members = known.type if isinstance(known, ValueList) else known.type.key
    if members is ListType.STRING:
        return after
    try:
        return int(after)
    except ValueError:
        raise Invalid([Reason("cursor", f"is not a cursor of this {known.kind}")]) from None


def _check_known(session: Session, item: ItemName) -> None:
    if session.get(ItemHead, item) is None:
        raise NotFound(f"there is no {item.kind} {item.key!a}")


def _at(work: UnitOfWork, item: ItemName, revision: int) -> Entries:
    if revision == 0:
        return {}
    if work.session.get(RevisionRow, (*item, storable_id(revision), 0)) is None:
        raise NotFound(f"the {item} has no revision {revision}")
    known = work.contents.at(work.session, item, revision)
    return {} if known is None else known.entries()


def _last_versions(session: Session, item: ItemName, numbers: Sequence[int]) -> Mapping[int, int | None]:
    """The offset of each revision's last record; None while a record of the revision waits."""
    wanted = RevisionRow.concerns(item), RevisionRow.revision.in_(numbers)
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
