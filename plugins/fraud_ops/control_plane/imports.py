"""A file of rules brought in at once: new ones as drafts, known ones with a new document, all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fraud_ops.control_plane.canonical import document_of
from fraud_ops.control_plane.changes import Work
from fraud_ops.control_plane.errors import ControlPlaneError, Invalid
from fraud_ops.control_plane.given import Wanted, with_remarks
from fraud_ops.control_plane.lifecycle import State
from fraud_ops.control_plane.roles import Actor, Permission, require
from fraud_ops.control_plane.settings import Bounds
from fraud_ops.control_plane.steps import add_draft, change_state, new_document
from fraud_ops.control_plane.store.models import RuleHead
from fraud_ops.control_plane.views import Import, ImportEffect, ImportItem
from fraud_rules.errors import InputInvalid, Reason, RuleRejected
from fraud_rules.rule_export import RuleFormat
from fraud_rules.rule_files import RuleRecord, read_rule_text
from fraud_rules.rule_json import decode_object
from fraud_rules.rule_text import read_text_form

__all__ = ["import_rules", "read_import"]

_NAMES: Final = MappingProxyType(
    {RuleFormat.JSON: "import.json", RuleFormat.YAML: "import.yaml", RuleFormat.TEXT: "import.txt"}
)


def import_rules(work: Work, who: Actor, records: Sequence[RuleRecord], comment: str) -> Import:
    """Bring the rules in. `applied` is false when one was rejected: the transaction must be taken back then."""
    seen: set[int] = set()
    items = []
    for place, record in enumerate(records, 1):
        where = f"rule {place}"
        try:
            items.append(_brought_in(work, who, where, record, comment, seen))
        except RuleRejected as rejected:
            items.append(ImportItem(where, rejected.rule_id, ImportEffect.REJECTED, rejected.reasons))
        except ControlPlaneError as error:
            items.append(ImportItem(where, None, ImportEffect.REJECTED, (Reason("record", str(error)),)))
    return Import(tuple(items), all(item.effect is not ImportEffect.REJECTED for item in items))


def read_import(who: Actor, content: str, form: RuleFormat | None, bounds: Bounds) -> tuple[RuleRecord, ...]:
    """The records of a file; before anybody has to wait for the writer, as YAML takes its time.

    Raises Refused, and Invalid for content that holds no rules or too many.
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
    return records


def _form_of(content: str) -> RuleFormat:
    """What a file looks like: JSON begins with a bracket, a line of text with its id and a comma."""
    lines = (line.strip() for line in content.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if first.startswith(("{", "[")):
        return RuleFormat.JSON
    number, comma, _ = first.partition(",")
    return RuleFormat.TEXT if comma and number.strip().isdigit() else RuleFormat.YAML


def _brought_in(work: Work, who: Actor, where: str, record: RuleRecord, comment: str, seen: set[int]) -> ImportItem:
    members, faults = _members(work, record)
    rule_id = members.get("ruleId")
    if type(rule_id) is int:
        if rule_id in seen:
            raise Invalid([Reason("ruleId", f"{rule_id} is in this import twice")], rule_id)
        seen.add(rule_id)
    if members.get("controlType") is not None or members.get("ruleState") == "CONTROL":
        raise Invalid([Reason("controlType", "controls are not imported")])
    head = work.session.get(RuleHead, rule_id) if type(rule_id) is int and abs(rule_id) < 2**63 else None
    known = head if head is not None and head.state != State.DELETE.value else None
    if members.get("disabled") is True or members.get("ruleState") == "DELETE":
        return _ended(work, who, where, rule_id, known, comment)
    if known is None:
        rule = work.reader.rule_of(members, faults, Wanted(None, State.DRAFT), strict=False)
        add_draft(work, who, rule, comment, "rule.import")
        return ImportItem(where, rule.rule_id, ImportEffect.ADD)
    document = document_of(known.document)
    if not record.value.lstrip().startswith(b"{"):
        members = with_remarks(members, document)
    rule = work.reader.rule_of(members, faults, Wanted(known.rule_id, State(known.state)), strict=False)
    before, asked = known.revision, known.approval_id
    if not _says_more(rule.document, document):
        return ImportItem(where, rule.rule_id, ImportEffect.UNCHANGED)
    after = new_document(work, who, known, rule, comment, "rule.import")
    if after.revision != before:
        return ImportItem(where, rule.rule_id, ImportEffect.CHANGE)
    effect = ImportEffect.UNCHANGED if after.approval_id == asked else ImportEffect.REQUEST
    return ImportItem(where, rule.rule_id, effect)


def _ended(work: Work, who: Actor, where: str, rule_id: object, known: RuleHead | None, comment: str) -> ImportItem:
    require(who, Permission.IMPORT_DELETE)
    if type(rule_id) is not int:
        raise Invalid([Reason("ruleId", "is required")])
    if known is None:
        return ImportItem(where, rule_id, ImportEffect.UNCHANGED)
    change_state(work, who, known.rule_id, known.revision, State.DELETE, comment)
    return ImportItem(where, rule_id, ImportEffect.DELETE)


def _members(work: Work, record: RuleRecord) -> tuple[dict[str, Any], list[Reason]]:
    """A record's members. Raises RuleRejected where it has none."""
    limits = work.reader.limits
    if len(record.value) > limits.max_record_bytes:
        problem = f"has {len(record.value)} bytes, at most {limits.max_record_bytes} are allowed"
        raise RuleRejected([Reason("record", problem)])
    text = record.value.decode("utf-8", "replace").strip()
    if not text.startswith("{"):
        return dict(read_text_form(text)), []
    decoded = decode_object(text, limits)
    return decoded.members, decoded.reasons


def _says_more(given: Mapping[str, object], known: Mapping[str, object]) -> bool:
    """Whether a document brought in changes anything but who wrote it last."""
    ours = {"source": None, "unique": None}
    return given.get("unique", []) != known.get("unique", []) or {**given, **ours} != {**known, **ours}
