"""Imports a file of rules, all of it or nothing: new rules become drafts, known rules get a new document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.errors import ControlPlaneError, Invalid
from fraud_control.domain.item import RULE
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import ImportEffect, ImportItem, ImportResult, ProblemReason
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.domain.rule_input import ManagedMembers, RuleReader, with_remarks
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import batches
from fraud_control.service.items import files
from fraud_control.service.rules.transitions import change_state, mode_of, put
from fraud_control.service.store_access import StoreAccess
from fraud_control.settings import Bounds
from fraud_control.store.models import ItemHead
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.codec.rules.files import read_rule_text
from fraud_rules.codec.rules.numbers import readable_id, with_whole_numbers
from fraud_rules.errors import InputInvalid, Reason, RuleRejected
from fraud_rules.model.rule import Rule, RuleDeletion
from fraud_rules.model.rule_names import in_writing_order

_ACTION: Final = "rule.import"
_NO_ID: Final = Reason(
    "ruleId", "is required, because an import finds rules by their ids; the editor chooses a free id for a new rule"
)


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """A decoded record of a file. `faults` lists the faults of its text, and `line` says whether it is in the one-line
    form. A record without members has the reason in `rejected`.
    """

    members: Mapping[str, Any] = field(default_factory=dict)
    faults: Sequence[Reason] = ()
    line: bool = False
    rejected: RuleRejected | None = None

    @property
    def rule_id(self) -> int | None:
        """The id of the rule, if the record names one."""
        return readable_id(self.members)

    @property
    def deletes(self) -> bool:
        """Whether the record deletes its rule."""
        return self.members.get("disabled") is True or self.members.get("ruleState") == "DELETE"


def read_import(
    who: Actor, content: str, form: RuleFormat | None, bounds: Bounds, reader: RuleReader
) -> tuple[ImportRecord, ...]:
    """Decode the records of a file. This runs outside the writer's transaction, because YAML is slow to parse.

    Raises RequestRefused, and Invalid for content that is unreadable or has too many rules.
    """
    require(who, Permission.IMPORT)
    files.check_bytes(content, bounds.import_bytes)
    try:
        records = read_rule_text(files.file_name(form or files.detect_form(content, _is_text)), content)
    except InputInvalid as error:
        raise Invalid([Reason("content", str(error))]) from error
    if len(records) > bounds.import_rules:
        raise Invalid([Reason("content", f"has {len(records)} rules, at most {bounds.import_rules} are allowed")])
    return tuple(_record_of(record.value, reader) for record in records)


class ParsedRules:
    """The rules of a file's records, each parsed once per stored revision, so that the writer rarely has to parse."""

    def __init__(self, reader: RuleReader, records: Sequence[ImportRecord]) -> None:
        self._reader = reader
        self._parsed: dict[tuple[int, int | None], Rule | RuleRejected] = {}
        self.records = records

    def rule(self, place: int, known: ItemHead | None) -> Rule:
        """Parse the record at a place, for a new rule or for a stored one (`known`). Raises RuleRejected."""
        key = place, None if known is None else known.revision
        if key not in self._parsed:
            self._parsed[key] = self._parse(self.records[place], known)
        found = self._parsed[key]
        if isinstance(found, RuleRejected):
            raise found
        return found

    def _parse(self, record: ImportRecord, known: ItemHead | None) -> Rule | RuleRejected:
        members, managed = record.members, ManagedMembers(None, StateName.DRAFT)
        if known is not None:
            members = with_remarks(members, document_of(known.document)) if record.line else members
            managed = ManagedMembers(known.number, StateName(known.state))
        try:
            return self._reader.rule_of(members, record.faults, managed, strict=False)
        except RuleRejected as rejected:
            return rejected if record.members.get("ruleId") is not None else _without_id(rejected)


def import_rules(
    store: StoreAccess,
    actor: Actor,
    content: str,
    form: RuleFormat | None = None,
    comment: str = "",
    *,
    dry_run: bool = False,
) -> ImportResult:
    """Import a file of rules, all of it or nothing (form None: detect the form from the content).

    New rules become drafts, known rules get a new document and keep their state, and DELETE records delete rules
    (admins only). `dry_run` returns the effects and saves nothing. Raises RequestRefused, and Invalid for content that
    is unreadable or too large.

    Rules are parsed and checked before the writer's transaction, so that other changes do not wait for this work.
    """
    store.check(actor, comment)
    parsed = ParsedRules(store.reader, read_import(actor, content, form, store.settings.bounds, store.reader))

    def apply(work: UnitOfWork, saves: bool) -> ImportResult:
        return apply_rules(work, actor, parsed, comment, saves=saves)

    return files.import_file(store, actor, comment, apply, dry_run=dry_run)


def apply_rules(work: UnitOfWork, who: Actor, parsed: ParsedRules, comment: str, *, saves: bool) -> ImportResult:
    """Import the parsed rules; without `saves`, only determine the effects, which needs no writer's transaction."""
    work.rules_in_use()  # reads the count before the first effect, because a dry run only counts its effects
    importing = _RuleImport(work, who, comment, saves, parsed, _heads(work.session, parsed.records))
    changes = {place: importing.change(place) for place in range(len(parsed.records))}
    valid = [place for place, change in changes.items() if change is not None]
    places = in_writing_order(valid, changes.__getitem__, work.names.by_rule())
    found = {place: importing.item(place) for place in (*(changes.keys() - set(places)), *places)}
    items = [found[place] for place in sorted(found)]
    return ImportResult(items=items, applied=all(item.effect != "rejected" for item in items))


def _without_id(rejected: RuleRejected) -> RuleRejected:
    """Say why a record without an id needs one, before the other reasons."""
    return RuleRejected([_NO_ID, *(reason for reason in rejected.reasons if reason.field != _NO_ID.field)])


def _item(where: str, rule_id: int | None, effect: ImportEffect, reasons: Sequence[ProblemReason] = ()) -> ImportItem:
    return ImportItem(where=where, rule_id=rule_id, effect=effect, reasons=list(reasons))


def _is_text(line: str) -> bool:
    """Whether a line of a file is in the one-line form: it starts with an id and a comma."""
    number, comma, _ = line.partition(",")
    return comma != "" and number.strip().isdigit()


@dataclass(slots=True)
class _RuleImport(files.ItemImport):
    """`heads` has the store's rules with the ids of the file."""

    parsed: ParsedRules
    heads: Mapping[int, ItemHead]

    def change(self, place: int) -> Rule | RuleDeletion | None:
        """The change in the record at a place; None if it has none that is valid."""
        record = self.parsed.records[place]
        if record.deletes:
            return None if record.rule_id is None else RuleDeletion(record.rule_id)
        try:
            return None if record.rejected is not None else self.parsed.rule(place, self._known(record)[1])
        except RuleRejected:
            return None

    def item(self, place: int) -> ImportItem:
        """Import the record at a place, and describe the effect."""
        where = f"rule {place + 1}"
        try:
            return _item(where, *self._import(place, self.parsed.records[place]))
        except (RuleRejected, ControlPlaneError) as error:
            rule_id = error.rule_id if isinstance(error, RuleRejected) else None
            return _item(where, rule_id, "rejected", files.reasons_of(error, "record"))

    def _known(self, record: ImportRecord) -> tuple[ItemHead | None, ItemHead | None]:
        """The store's rule with the id of a record, and the same unless it is deleted."""
        head = None if record.rule_id is None else self.heads.get(record.rule_id)
        return head, head if head is not None and not head.deleted else None

    def _import(self, place: int, record: ImportRecord) -> tuple[int | None, ImportEffect]:
        """Import one record; return the id of its rule, and the effect. Raises RuleRejected, RequestRefused."""
        self._check(record)
        head, known = self._known(record)
        if record.deletes:
            return record.rule_id, self._end(record, known)
        rule = self.parsed.rule(place, known)
        return rule.rule_id, self._put(rule, head, new=known is None)

    def _check(self, record: ImportRecord) -> None:
        if record.rejected is not None:
            raise record.rejected
        if record.rule_id is not None:
            self.check_once("ruleId", record.rule_id)
        if record.members.get("controlType") is not None or record.members.get("ruleState") == "CONTROL":
            raise Invalid([Reason("controlType", "an import cannot contain controls")])

    def _put(self, rule: Rule, head: ItemHead | None, *, new: bool) -> ImportEffect:
        if not new and head is not None and not _says_more(rule.document, document_of(head.document)):
            return "unchanged"
        mode = mode_of(self.work, self.actor, rule, head)
        if mode is None:
            return "unchanged"
        if self.saves:
            put(self.work, self.actor, rule, head, self.comment, _ACTION)
        else:
            state = StateName.DRAFT if new or head is None else StateName(head.state)
            self.work.names.changed(rule.rule_id, state, rule.named_rules)
            if new:
                self.work.count_transition(StateName.DELETE, state)
        return files.effect_of(mode, new=new)

    def _end(self, record: ImportRecord, known: ItemHead | None) -> ImportEffect:
        require(self.actor, Permission.IMPORT_DELETE)
        if record.rule_id is None:
            raise Invalid([_NO_ID])
        if known is None:
            return "unchanged"
        # Only admins reach this line, and they may delete a rule in any state without a request.
        if self.saves:
            change_state(self.work, self.actor, record.rule_id, known.revision, StateName.DELETE, self.comment)
        else:
            self.work.names.check_state(record.rule_id, StateName.DELETE, known.document)
            self.work.names.changed(record.rule_id, StateName.DELETE, ())
            self.work.count_transition(StateName(known.state), StateName.DELETE)
        return "deleted"


def _heads(session: Session, records: Sequence[ImportRecord]) -> Mapping[int, ItemHead]:
    """Read the store's rules with these ids, some hundreds per query."""
    ids = [each.rule_id for each in records if each.rule_id is not None]
    wanted = select(ItemHead).where(ItemHead.kind == RULE)
    heads = (session.scalars(wanted.where(ItemHead.number.in_(some))) for some in batches(ids))
    return {head.number: head for some in heads for head in some if head.number is not None}


def _record_of(record: bytes, reader: RuleReader) -> ImportRecord:
    """Decode one record."""
    text = record.decode("utf-8", "replace")
    try:
        members, faults = reader.members_of_text(text)
    except RuleRejected as rejected:
        return ImportRecord(rejected=rejected)
    return ImportRecord(with_whole_numbers(members), faults, line=not text.lstrip().startswith("{"))


def _says_more(record: Mapping[str, object], known: Mapping[str, object]) -> bool:
    """Whether an imported document differs from the stored one in more than the source."""
    ours = {"source": None, "unique": None}
    return record.get("unique", []) != known.get("unique", []) or {**record, **ours} != {**known, **ours}
