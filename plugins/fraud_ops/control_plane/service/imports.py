"""Imports a file of rules, all of it or nothing: new rules become drafts, known rules get a new document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_ops.control_plane.domain.canonical import document_of
from fraud_ops.control_plane.domain.errors import ControlPlaneError, Invalid
from fraud_ops.control_plane.domain.lifecycle import StateName
from fraud_ops.control_plane.domain.read_models import ImportEffect, ImportItem, ImportResult, ProblemReason
from fraud_ops.control_plane.domain.roles import Actor, Permission, require
from fraud_ops.control_plane.domain.rule_input import ManagedMembers, with_remarks
from fraud_ops.control_plane.service.changes import UnitOfWork
from fraud_ops.control_plane.service.transitions import add_draft, change_state, replace_document
from fraud_ops.control_plane.settings import Bounds
from fraud_ops.control_plane.store.models import RuleHead
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.codec.rules.files import read_rule_text
from fraud_rules.codec.rules.json import decode_object
from fraud_rules.codec.rules.numbers import readable_id, with_whole_numbers
from fraud_rules.codec.rules.text import read_text_form
from fraud_rules.errors import InputInvalid, Reason, RuleRejected
from fraud_rules.model.limits import RuleLimits

__all__ = ["import_rules", "read_import"]

_ACTION: Final = "rule.import"
_ASKED_AT_ONCE: Final = 500
_NAMES: Final = MappingProxyType(
    {RuleFormat.JSON: "import.json", RuleFormat.YAML: "import.yaml", RuleFormat.TEXT: "import.txt"}
)


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """A decoded record of a file. `faults` lists the faults of its text, and `line` says whether it is in the one-line
    form. A record without members has the reason in `refused`.
    """

    members: Mapping[str, Any] = field(default_factory=dict)
    faults: Sequence[Reason] = ()
    line: bool = False
    refused: RuleRejected | None = None

    @property
    def rule_id(self) -> int | None:
        """The id of the rule, if the record names one."""
        return readable_id(self.members)


def read_import(
    who: Actor, content: str, form: RuleFormat | None, bounds: Bounds, limits: RuleLimits
) -> tuple[ImportRecord, ...]:
    """Decode the records of a file. This runs outside the writer's transaction, because YAML is slow to parse.

    Raises RequestRefused, and Invalid for content that is unreadable or has too many rules.
    """
    require(who, Permission.IMPORT)
    size = len(content.encode("utf-8", "replace"))
    if size > bounds.import_bytes:
        raise Invalid([Reason("content", f"has {size} bytes, at most {bounds.import_bytes} are allowed")])
    try:
        records = read_rule_text(Path(_NAMES[form or _form_of(content)]), content)
    except InputInvalid as error:
        raise Invalid([Reason("content", str(error))]) from error
    if len(records) > bounds.import_rules:
        raise Invalid([Reason("content", f"has {len(records)} rules, at most {bounds.import_rules} are allowed")])
    return tuple(_given(record.value, limits) for record in records)


def import_rules(work: UnitOfWork, who: Actor, records: Sequence[ImportRecord], comment: str) -> ImportResult:
    """Import the rules. If one is rejected, `applied` is false and the caller must roll the transaction back."""
    bringing = _Bringing(work, who, comment, _heads(work.session, records))
    items = []
    for place, record in enumerate(records, 1):
        where = f"rule {place}"
        try:
            items.append(bringing.bring(where, record))
        except RuleRejected as rejected:
            items.append(_item(where, rejected.rule_id, "rejected", rejected.reasons))
        except ControlPlaneError as error:
            items.append(_item(where, None, "rejected", [Reason("record", str(error))]))
    return ImportResult(items=items, applied=all(item.effect != "rejected" for item in items))


def _item(where: str, rule_id: int | None, effect: ImportEffect, reasons: Sequence[Reason] = ()) -> ImportItem:
    shown = [ProblemReason.model_validate(reason) for reason in reasons]
    return ImportItem(where=where, rule_id=rule_id, effect=effect, reasons=shown)


def _form_of(content: str) -> RuleFormat:
    """Detect the form of a file: JSON starts with a bracket, the one-line form with an id and a comma."""
    lines = (line.strip() for line in content.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if first.startswith(("{", "[")):
        return RuleFormat.JSON
    number, comma, _ = first.partition(",")
    return RuleFormat.TEXT if comma and number.strip().isdigit() else RuleFormat.YAML


class _Bringing:
    """Imports rules one by one; `heads` has the store's rules with their ids."""

    def __init__(self, work: UnitOfWork, who: Actor, comment: str, heads: Mapping[int, RuleHead]) -> None:
        self._work = work
        self._who = who
        self._comment = comment
        self._heads = heads
        self._seen: set[int] = set()

    def bring(self, where: str, given: ImportRecord) -> ImportItem:
        """Import one record. Raises RuleRejected, RequestRefused."""
        self._check(given)
        head = None if given.rule_id is None else self._heads.get(given.rule_id)
        known = head if head is not None and head.state != StateName.DELETE.value else None
        if given.members.get("disabled") is True or given.members.get("ruleState") == "DELETE":
            return self._end(where, given, known)
        return self._add(where, given, head) if known is None else self._change(where, given, known)

    def _check(self, given: ImportRecord) -> None:
        if given.refused is not None:
            raise given.refused
        rule_id = given.rule_id
        if rule_id is not None:
            if rule_id in self._seen:
                raise Invalid([Reason("ruleId", f"{rule_id} occurs twice in this import")], rule_id)
            self._seen.add(rule_id)
        if given.members.get("controlType") is not None or given.members.get("ruleState") == "CONTROL":
            raise Invalid([Reason("controlType", "an import cannot contain controls")])

    def _add(self, where: str, given: ImportRecord, head: RuleHead | None) -> ImportItem:
        wanted = ManagedMembers(None, StateName.DRAFT)
        rule = self._work.reader.rule_of(given.members, given.faults, wanted, strict=False)
        add_draft(self._work, self._who, rule, head, self._comment, _ACTION)
        return _item(where, rule.rule_id, "added")

    def _change(self, where: str, given: ImportRecord, known: RuleHead) -> ImportItem:
        document = document_of(known.document)
        members = with_remarks(given.members, document) if given.line else given.members
        wanted = ManagedMembers(known.rule_id, StateName(known.state))
        rule = self._work.reader.rule_of(members, given.faults, wanted, strict=False)
        before, asked = known.revision, known.approval_id
        if not _says_more(rule.document, document):
            return _item(where, rule.rule_id, "unchanged")
        after = replace_document(self._work, self._who, known, rule, self._comment, _ACTION)
        if after.revision != before:
            return _item(where, rule.rule_id, "changed")
        effect: ImportEffect = "unchanged" if after.approval_id == asked else "requested"
        return _item(where, rule.rule_id, effect)

    def _end(self, where: str, given: ImportRecord, known: RuleHead | None) -> ImportItem:
        require(self._who, Permission.IMPORT_DELETE)
        if given.rule_id is None:
            raise Invalid([Reason("ruleId", "is required")])
        if known is None:
            return _item(where, given.rule_id, "unchanged")
        change_state(self._work, self._who, known.rule_id, known.revision, StateName.DELETE, self._comment)
        return _item(where, given.rule_id, "deleted")


def _heads(session: Session, records: Sequence[ImportRecord]) -> Mapping[int, RuleHead]:
    """Read the store's rules with these ids, some hundreds per query."""
    ids = [each.rule_id for each in records if each.rule_id is not None]
    found: dict[int, RuleHead] = {}
    for start in range(0, len(ids), _ASKED_AT_ONCE):
        asked = select(RuleHead).where(RuleHead.rule_id.in_(ids[start : start + _ASKED_AT_ONCE]))
        found |= {head.rule_id: head for head in session.scalars(asked)}
    return found


def _given(record: bytes, limits: RuleLimits) -> ImportRecord:
    """Decode one record."""
    if len(record) > limits.max_record_bytes:
        problem = f"has {len(record)} bytes, at most {limits.max_record_bytes} are allowed"
        return ImportRecord(refused=RuleRejected([Reason("record", problem)]))
    text = record.decode("utf-8", "replace").strip()
    try:
        if not text.startswith("{"):
            return ImportRecord(read_text_form(text), line=True)
        decoded = decode_object(text, limits)
    except RuleRejected as rejected:
        return ImportRecord(refused=rejected)
    return ImportRecord(with_whole_numbers(decoded.members), decoded.reasons)


def _says_more(given: Mapping[str, object], known: Mapping[str, object]) -> bool:
    """Whether an imported document differs from the stored one in more than the source."""
    ours = {"source": None, "unique": None}
    return given.get("unique", []) != known.get("unique", []) or {**given, **ours} != {**known, **ours}
