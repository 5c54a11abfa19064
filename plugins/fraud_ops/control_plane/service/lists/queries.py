"""Reads lists from the store: all lists, the values of one list, its revisions and their differences."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_ops.control_plane.domain.errors import Invalid, NotFound
from fraud_ops.control_plane.domain.list_models import ListDiff, ListedValue, ListRevision, ListUse, StoredList
from fraud_ops.control_plane.domain.read_models import Approval, Page
from fraud_ops.control_plane.domain.rule_input import RuleReader
from fraud_ops.control_plane.service.lists.changes import head_of_list
from fraud_ops.control_plane.service.lists.contents import ListContents
from fraud_ops.control_plane.service.lists.expiries import expiries_of, expiry_counts
from fraud_ops.control_plane.service.lists.uses import uses_of, uses_of_lists
from fraud_ops.control_plane.store.models import ApprovalRow, ListChangeRow, ListHead
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.codec.rules.list_files import export_lists
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.model.value_list import ListType, ListValue, ValueList

__all__ = ["containing", "detail", "diff", "difference", "export", "export_all", "revisions", "rows", "values"]

_SHOWN_VALUES: Final = 1_000


def rows(session: Session, reader: RuleReader) -> tuple[StoredList, ...]:
    """The lists that are not deleted, by name."""
    heads = session.scalars(select(ListHead).where(~ListHead.deleted).order_by(ListHead.name)).all()
    uses, expiries = uses_of_lists(session, reader), expiry_counts(session)
    return tuple(_row(session, head, uses.get(head.name, ()), expiries) for head in heads)


def detail(session: Session, reader: RuleReader, name: str) -> StoredList:
    """Read a list. Raises NotFound."""
    return _row(session, head_of_list(session, name), uses_of(session, reader, name), expiry_counts(session))


def values(
    session: Session, contents: ListContents, name: str, *, query: str, limit: int, after: str | None
) -> Page[ListedValue]:
    """List the values that contain the text `query`, in order, from the first one above `after`. Raises NotFound,
    Invalid.
    """
    known = _known(session, contents, name)
    ordered = contents.sorted_values(known)
    start = 0 if after is None else bisect_right(ordered, _cursor(known, after))
    found: list[ListValue] = []
    for position in range(start, len(ordered)):
        if not query or query in str(ordered[position]):
            found.append(ordered[position])
            if len(found) > limit:
                break
    shown = found[:limit]
    expiries = expiries_of(session, name, shown)
    items = tuple(ListedValue(value=str(each), expires_at_ms=expiries.get(str(each))) for each in shown)
    return Page(items, str(shown[-1]) if len(found) > limit else None)


def containing(session: Session, contents: ListContents, value: ListValue) -> list[str]:
    """The names of the lists that contain a value, in order."""
    kind = ListType.LONG if isinstance(value, int) else ListType.STRING
    names = session.scalars(
        select(ListHead.name).where(~ListHead.deleted, ListHead.type == kind.value).order_by(ListHead.name)
    )
    lists = [contents.current(session, name) for name in names.all()]
    return [each.name for each in lists if each is not None and each.contains(value)]


def revisions(session: Session, name: str, *, limit: int, before: int | None) -> Page[ListRevision]:
    """List the changes of a list, newest first. A deleted list keeps its changes. Raises NotFound."""
    _check_known(session, name)
    wanted = [ListChangeRow.name == name, ListChangeRow.part == 0]
    if before is not None:
        wanted.append(ListChangeRow.revision < before)
    found = session.scalars(
        select(ListChangeRow).where(*wanted).order_by(ListChangeRow.revision.desc()).limit(limit + 1)
    ).all()
    shown = found[:limit]
    versions = _last_versions(session, name, [row.revision for row in shown])
    items = tuple(
        ListRevision.model_validate(row).model_copy(update={"log_version": versions[row.revision]}) for row in shown
    )
    return Page(items, str(shown[-1].revision) if len(found) > limit else None)


def diff(session: Session, contents: ListContents, name: str, before: int, after: int) -> ListDiff:
    """Compare the values of a list after two revisions. Revision 0 stands for no values. Raises NotFound."""
    _check_known(session, name)
    return difference(*(_at(session, contents, name, revision) for revision in (before, after)))


def difference(before: Sequence[ListValue], after: Sequence[ListValue]) -> ListDiff:
    """Compare the sorted values of two versions of a list."""
    known, wanted = set(before), set(after)
    added = [value for value in after if value not in known]
    removed = [value for value in before if value not in wanted]
    return ListDiff(
        added=len(added),
        removed=len(removed),
        added_values=[str(value) for value in added[:_SHOWN_VALUES]],
        removed_values=[str(value) for value in removed[:_SHOWN_VALUES]],
    )


def export(session: Session, contents: ListContents, name: str) -> str:
    """The values of a list in order, one per line. Raises NotFound."""
    ordered = contents.sorted_values(_known(session, contents, name))
    return "".join(f"{value}\n" for value in ordered)


def export_all(session: Session, contents: ListContents, form: RuleFormat) -> str:
    """All lists by name, as the text of a file. Raises Invalid for a value that the text form cannot express."""
    names = session.scalars(select(ListHead.name).where(~ListHead.deleted).order_by(ListHead.name)).all()
    found = (contents.current(session, name) for name in names)
    try:
        return export_lists([each for each in found if each is not None], form)
    except InputInvalid as error:
        raise Invalid([Reason("format", str(error))]) from error


def _row(
    session: Session,
    head: ListHead,
    uses: Sequence[ListUse],
    expiries: Mapping[str, tuple[int, int]],
) -> StoredList:
    pending = None if head.approval_id is None else session.get(ApprovalRow, head.approval_id)
    expiring, next_expiry_ms = expiries.get(head.name, (0, None))
    return StoredList(
        name=head.name,
        type=ListType(head.type),
        size=head.size,
        revision=head.revision,
        source=head.source,
        updated_at_ms=head.updated_at_ms,
        updated_by=head.updated_by,
        published=head.outbox_seq is None or head.log_version is not None,
        rules=list(uses),
        expiring=expiring,
        next_expiry_ms=next_expiry_ms,
        log_version=head.log_version,
        pending=None if pending is None else Approval.model_validate(pending),
    )


def _known(session: Session, contents: ListContents, name: str) -> ValueList:
    head_of_list(session, name)
    known = contents.current(session, name)
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
    if session.get(ListHead, name) is None:
        raise NotFound(f"there is no list {name!a}")


def _at(session: Session, contents: ListContents, name: str, revision: int) -> list[ListValue]:
    if revision == 0:
        return []
    if session.get(ListChangeRow, (name, revision, 0)) is None:
        raise NotFound(f"the list {name} has no revision {revision}")
    known = contents.at(session, name, revision)
    return [] if known is None else known.values()


def _last_versions(session: Session, name: str, numbers: Sequence[int]) -> Mapping[int, int | None]:
    """The offset of each revision's last record; None while a record of the revision waits."""
    wanted = ListChangeRow.name == name, ListChangeRow.revision.in_(numbers)
    counted = (
        select(
            ListChangeRow.revision,
            func.max(ListChangeRow.log_version),
            func.count(),
            func.count(ListChangeRow.log_version),
        )
        .where(*wanted)
        .group_by(ListChangeRow.revision)
    )
    return {
        revision: version if parts == arrived else None
        for revision, version, parts, arrived in session.execute(counted)
    }
