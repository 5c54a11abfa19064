"""Imports a file of rules or lists, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fraud_control.domain.collection_models import CollectionImportResult
from fraud_control.domain.errors import ControlPlaneError, Invalid
from fraud_control.domain.lifecycle import ChangeMode
from fraud_control.domain.read_models import ImportEffect, ImportResult, ProblemReason
from fraud_control.domain.roles import Actor
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.store_access import StoreAccess
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.errors import Reason, RuleRejected

_Result = TypeVar("_Result", ImportResult, CollectionImportResult)


@dataclass(slots=True)
class ItemImport:
    """The import of a file in a transaction. Without `saves`, it changes nothing in the store."""

    work: UnitOfWork
    actor: Actor
    comment: str
    saves: bool
    _seen: set[int | str] = field(init=False, default_factory=set)

    def check_once(self, member: str, name: int | str) -> None:
        """Raise Invalid if another record of the file has the same name."""
        if name in self._seen:
            rule_id = name if isinstance(name, int) else None
            raise Invalid([Reason(member, f"{name} occurs twice in this import")], rule_id)
        self._seen.add(name)


def import_file(
    store: StoreAccess, actor: Actor, comment: str, apply: Callable[[UnitOfWork, bool], _Result], *, dry_run: bool
) -> _Result:
    """Import the items of a parsed file; if one is rejected, none. `dry_run` returns the effects and saves nothing.

    `apply` determines the effects, and saves them if its second argument is true. It runs without saving first, so
    that other changes do not wait for a file that is rejected.
    """
    with store.reading() as reads:
        preview = apply(reads, False)
    if dry_run or not preview.applied:
        return preview.model_copy(update={"applied": False})
    with store.change(actor, comment) as work:
        done = apply(work, True)
        if not done.applied:
            work.roll_back_all()
        return done


def check_bytes(content: str, most: int, hint: str = "") -> None:
    """Raise Invalid if a file is too large."""
    size = len(content.encode("utf-8", "replace"))
    if size > most:
        raise Invalid([Reason("content", f"has {size} bytes, at most {most} are allowed{hint}")])


def detect_form(content: str, is_text: Callable[[str], bool]) -> RuleFormat:
    """Detect the form of a file by its first line: JSON starts with a bracket, and `is_text` knows the text form."""
    lines = (line.strip() for line in content.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if first.startswith(("{", "[")):
        return RuleFormat.JSON
    return RuleFormat.TEXT if is_text(first) else RuleFormat.YAML


def file_name(form: RuleFormat) -> Path:
    """The name by which the parsers of files know the form."""
    return Path("import.txt" if form is RuleFormat.TEXT else f"import.{form.value}")


def effect_of(mode: ChangeMode, *, new: bool) -> ImportEffect:
    """The effect of a change of a new or known item."""
    return "added" if new else "requested" if mode is ChangeMode.REQUEST else "changed"


def reasons_of(error: ControlPlaneError | RuleRejected, item: str) -> list[ProblemReason]:
    """The reasons for which an item is rejected. An error without a field is about the whole `item`."""
    reasons: Sequence[Reason] = error.reasons if isinstance(error, RuleRejected) else [Reason(item, str(error))]
    return [ProblemReason.model_validate(reason) for reason in reasons]
