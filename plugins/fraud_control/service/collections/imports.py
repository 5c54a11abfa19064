"""Imports a file of lists, all of it or nothing: each list of the file gets exactly its values there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fraud_control.domain.collection_input import change_of_values
from fraud_control.domain.collection_models import CollectionDiff, CollectionImportItem, CollectionImportResult
from fraud_control.domain.errors import Conflict, ControlPlaneError, Invalid
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import ChangeMode
from fraud_control.domain.read_models import ImportEffect, ProblemReason
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.content import CollectionContent
from fraud_control.service.collections.queries import difference
from fraud_control.service.collections.transitions import plan, put
from fraud_control.service.items import files
from fraud_control.service.store_access import StoreAccess
from fraud_control.settings import Bounds
from fraud_control.store.models import ItemHead
from fraud_rules.codec.rules.collections.files import RejectedCollection, SeedCollection, read_collections
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import CollectionKind, ListChange, ListType

__all__ = ["import_lists"]

_NO_DIFFERENCE: Final = CollectionDiff(added=0, removed=0, added_values=[], removed_values=[])


@dataclass(frozen=True, slots=True)
class ListOfFile:
    """One list of a file. `change` is the SET of its values, None for an invalid list, which has `reasons`."""

    where: str
    name: str | None
    change: ListChange | None
    reasons: Sequence[Reason] = ()


def read_import(
    actor: Actor, content: str, form: RuleFormat | None, bounds: Bounds, limits: RuleLimits
) -> tuple[ListOfFile, ...]:
    """Decode the lists of a file. This runs outside the writer's transaction, because long lists are slow to parse.

    Raises RequestRefused, and Invalid for content that is unreadable or too large.
    """
    require(actor, Permission.IMPORT)
    text = content.removeprefix("\ufeff")
    form = form or files.detect_form(text, _is_text)
    if form is RuleFormat.YAML:  # slow to parse
        files.check_bytes(content, min(bounds.list_bytes, bounds.import_bytes), "; use JSON or the text form")
    else:
        files.check_bytes(content, bounds.list_bytes)
    try:
        lists = read_collections(CollectionKind.LIST, files.file_name(form), text, limits)
    except InputInvalid as error:
        raise Invalid([Reason("content", str(error))]) from error
    return tuple(_list_of_file(each, limits) for each in lists)


def import_lists(
    store: StoreAccess,
    actor: Actor,
    content: str,
    form: RuleFormat | None = None,
    revisions: Mapping[str, int] | None = None,
    comment: str = "",
    *,
    dry_run: bool = False,
) -> CollectionImportResult:
    """Import a file of lists, all of it or nothing (form None: detect the form from the content).

    Each list gets exactly the values of the file; lists that the file does not name stay as they are. A list whose
    revision is not the one in `revisions` is rejected. `dry_run` returns the effects and saves nothing. Raises
    RequestRefused, and Invalid for content that is unreadable or too large.

    Lists are parsed and compared before the writer's transaction, so that other changes do not wait for this work.
    """
    store.check(actor, comment)
    lists = read_import(actor, content, form, store.settings.bounds, store.reader.limits)

    def apply(work: UnitOfWork, saves: bool) -> CollectionImportResult:
        work.collections.count()  # reads the count before the first effect, because a dry run only counts its effects
        importing = _ListImport(work, actor, comment, saves, revisions or {})
        items = [importing.item(each) for each in lists]
        return CollectionImportResult(items=items, applied=all(item.effect != "rejected" for item in items))

    return files.import_file(store, actor, comment, apply, dry_run=dry_run)


@dataclass(slots=True)
class _ListImport(files.ItemImport):
    """`revisions` are the revisions of lists that the user has read."""

    revisions: Mapping[str, int]

    def item(self, each: ListOfFile) -> CollectionImportItem:
        """Import one list, and return its effect."""
        if each.change is None:
            shown = [ProblemReason.model_validate(reason) for reason in each.reasons]
            return _item(each, 0, "rejected", _NO_DIFFERENCE, shown)
        head = self.work.head(ItemName.of_list(each.change.name))
        known = None if head is None or head.deleted else head
        revision = 0 if known is None else known.revision
        diff = self._difference(each.change)
        try:
            return _item(each, revision, self._effect(each.change, known), diff)
        except (Invalid, ControlPlaneError) as error:
            return _item(each, revision, "rejected", diff, files.reasons_of(error, "list"))

    def _effect(self, change: ListChange, known: ItemHead | None) -> ImportEffect:
        """Save the change, or determine its effect. Raises RequestRefused, Invalid, Conflict."""
        name, revision = change.name, 0 if known is None else known.revision
        self.check_once("listName", name)
        if self.revisions.get(name, revision) != revision:
            raise Conflict(f"the list {name} has changed since the preview", revision)
        mode, _ = plan(self.work, self.actor, CollectionContent(change))
        if mode is None:
            return "unchanged"
        if self.saves:
            put(self.work, self.actor, CollectionContent(change), self.comment)
        elif mode is ChangeMode.NOW:
            self.work.collections.saved(name, [(change, None)])
        return files.effect_of(mode, new=known is None)

    def _difference(self, change: ListChange) -> CollectionDiff:
        known = self.work.collections.current(change.name)
        if known is not None and known.type is not change.type:
            return _NO_DIFFERENCE  # the change is rejected
        return difference([] if known is None else known.values(), sorted(change.values()))


def _item(
    each: ListOfFile, revision: int, effect: ImportEffect, diff: CollectionDiff, reasons: Sequence[ProblemReason] = ()
) -> CollectionImportItem:
    return CollectionImportItem(
        where=each.where, name=each.name, effect=effect, revision=revision, reasons=list(reasons), diff=diff
    )


def _list_of_file(found: SeedCollection | RejectedCollection, limits: RuleLimits) -> ListOfFile:
    where = found.where.partition(", ")[2]
    if isinstance(found, RejectedCollection):
        return ListOfFile(where, found.name, None, found.reasons)
    assert isinstance(found.type, ListType)  # the file has lists
    return ListOfFile(where, found.name, change_of_values(found.name, found.type, found.values, SOURCE, limits))


def _is_text(line: str) -> bool:
    """Whether a line of a file is in the text form, which has a comma before a colon."""
    return not line.startswith("-") and ":" not in line.partition(",")[0]
