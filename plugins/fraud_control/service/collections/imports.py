"""Imports a file of lists or maps, all of it or nothing: each of the file gets exactly its content there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fraud_control.domain.collection_input import change_of_seed
from fraud_control.domain.collection_models import CollectionDiff, CollectionImportItem, CollectionImportResult
from fraud_control.domain.collection_types import item_of
from fraud_control.domain.errors import Conflict, ControlPlaneError, Invalid
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
from fraud_rules.codec.rules.collections.plan import Entries
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.model.collection_history import CollectionChange
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.value_list import CollectionKind

_NO_DIFFERENCE: Final = CollectionDiff(added=0, removed=0, added_values=[], removed_values=[])


@dataclass(frozen=True, slots=True)
class CollectionOfFile:
    """One list or map of a file. `change` is its SET, None for an invalid one, which has `reasons`."""

    where: str
    name: str | None
    change: CollectionChange | None
    reasons: Sequence[Reason] = ()


def read_import(
    kind: CollectionKind, actor: Actor, content: str, form: RuleFormat | None, bounds: Bounds, limits: RuleLimits
) -> tuple[CollectionOfFile, ...]:
    """Decode the lists or maps of a file. This runs outside the writer's transaction, because long ones are slow to
    parse.

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
        found = read_collections(kind, files.file_name(form), text, limits)
    except InputInvalid as error:
        raise Invalid([Reason("content", str(error))]) from error
    return tuple(_of_file(each, limits) for each in found)


def import_collections(
    kind: CollectionKind,
    store: StoreAccess,
    actor: Actor,
    content: str,
    form: RuleFormat | None = None,
    revisions: Mapping[str, int] | None = None,
    comment: str = "",
    *,
    dry_run: bool = False,
) -> CollectionImportResult:
    """Import a file of lists or maps, all of it or nothing (form None: detect the form from the content).

    Each gets exactly the content of the file; others stay as they are. One whose revision is not the one in `revisions`
    is rejected. `dry_run` returns the effects and saves nothing. Raises RequestRefused, and Invalid for content that is
    unreadable or too large.

    They are parsed and compared before the writer's transaction, so that other changes do not wait for this work.
    """
    store.check(actor, comment)
    found = read_import(kind, actor, content, form, store.settings.bounds, store.reader.limits)

    def apply(work: UnitOfWork, saves: bool) -> CollectionImportResult:
        work.collections.count(
            kind.value
        )  # reads the count before the first effect, because a dry run only counts its effects
        importing = _CollectionImport(work, actor, comment, saves, revisions or {})
        items = [importing.item(each) for each in found]
        return CollectionImportResult(items=items, applied=all(item.effect != "rejected" for item in items))

    return files.import_file(store, actor, comment, apply, dry_run=dry_run)


@dataclass(slots=True)
class _CollectionImport(files.ItemImport):
    """`revisions` are the revisions of lists or maps that the user has read."""

    revisions: Mapping[str, int]

    def item(self, each: CollectionOfFile) -> CollectionImportItem:
        """Import one list or map, and return its effect."""
        if each.change is None:
            shown = [ProblemReason.model_validate(reason) for reason in each.reasons]
            return _item(each, 0, "rejected", _NO_DIFFERENCE, shown)
        head = self.work.head(item_of(each.change))
        known = None if head is None or head.deleted else head
        revision = 0 if known is None else known.revision
        diff = self._difference(each.change)
        try:
            return _item(each, revision, self._effect(each.change, known), diff)
        except (Invalid, ControlPlaneError) as error:
            return _item(each, revision, "rejected", diff, files.reasons_of(error, each.change.kind.value))

    def _effect(self, change: CollectionChange, known: ItemHead | None) -> ImportEffect:
        """Save the change, or determine its effect. Raises RequestRefused, Invalid, Conflict."""
        name, revision = change.name, 0 if known is None else known.revision
        self.check_once(f"{change.kind}Name", name)
        if self.revisions.get(name, revision) != revision:
            raise Conflict(f"the {change.kind} {name} has changed since the preview", revision)
        mode, _ = plan(self.work, self.actor, CollectionContent(change))
        if mode is None:
            return "unchanged"
        if self.saves:
            put(self.work, self.actor, CollectionContent(change), self.comment)
        elif mode is ChangeMode.NOW:
            self.work.collections.saved(item_of(change), [(change, None)])
        return files.effect_of(mode, new=known is None)

    def _difference(self, change: CollectionChange) -> CollectionDiff:
        known = self.work.collections.current(item_of(change))
        if change.type is None or (known is not None and known.type != change.type):
            return _NO_DIFFERENCE  # the change is rejected
        entries: Entries = change.updates(change.type)  # type: ignore[arg-type]
        before: Entries = {} if known is None else known.entries()
        return difference(before, {member: entries[member] for member in sorted(entries)})


def _item(
    each: CollectionOfFile,
    revision: int,
    effect: ImportEffect,
    diff: CollectionDiff,
    reasons: Sequence[ProblemReason] = (),
) -> CollectionImportItem:
    return CollectionImportItem(
        where=each.where, name=each.name, effect=effect, revision=revision, reasons=list(reasons), diff=diff
    )


def _of_file(found: SeedCollection | RejectedCollection, limits: RuleLimits) -> CollectionOfFile:
    where = found.where.partition(", ")[2]
    if isinstance(found, RejectedCollection):
        return CollectionOfFile(where, found.name, None, found.reasons)
    return CollectionOfFile(where, found.name, change_of_seed(found, SOURCE, limits))


def _is_text(line: str) -> bool:
    """Whether a line of a file is in the text form, which has a comma before a colon."""
    return not line.startswith("-") and ":" not in line.partition(",")[0]
