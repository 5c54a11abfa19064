"""Applies rule files to the rule log: validates all records of the files, then plans the records to write.

Pure except for reading the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fraud_rules.codec.rules.codec import encode_document, parse_rule_record, read_entry
from fraud_rules.codec.rules.files import read_rule_file
from fraud_rules.errors import FraudError, InputInvalid, Reason, RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Control, Rule, RuleChange, RuleDeletion
from fraud_rules.model.rule_names import in_writing_order
from fraud_rules.model.ruleset import RuleSet, RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.value_list import ListChange
from fraud_rules.model.value_map import MapChange

DEFAULT_SOURCE = "cli"
RULE_SUFFIXES = frozenset({".json", ".jsonl", ".yaml", ".yml", ".txt"})


class Effect(StrEnum):
    """The effect of a record on the rules in force."""

    ADD = "added"
    CHANGE = "changed"
    UNCHANGED = "unchanged"
    DELETE = "deleted"
    CONTROL = "control"

    @property
    def writes(self) -> bool:
        """Whether a record goes to the rule log."""
        return self is not Effect.UNCHANGED


@dataclass(frozen=True, slots=True)
class ValidatedRecord:
    """One record of a file, with its change, or with the reasons why it is invalid."""

    where: str
    change: RuleChange | None
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedRecord:
    """The planned effect of one record. `record` is the value to write, empty for an unchanged rule."""

    where: str
    change: RuleChange
    effect: Effect
    record: bytes

    @property
    def rule_id(self) -> int | None:
        """The id of the rule; None for a control."""
        return None if isinstance(self.change, Control) else self.change.rule_id


class RulesRejected(FraudError):
    """Some of the given rules are not valid. No record was written."""

    exit_code = RuleRejected.exit_code


def rule_files(paths: Iterable[Path]) -> Iterator[Path]:
    """List the given files, and the rule files in given folders by name. Raises InputInvalid for an empty folder."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(file for file in path.iterdir() if file.is_file() and file.suffix in RULE_SUFFIXES)
        if not found:
            raise InputInvalid(f"{path}: holds no rule files ({', '.join(sorted(RULE_SUFFIXES))})")
        yield from found


def validate_files(paths: Iterable[Path], schema: TransactionSchema, limits: RuleLimits) -> list[ValidatedRecord]:
    """Validate every record of the files, in order. A rule that occurs a second time is invalid, because the files must
    name one content of each rule. Raises InputInvalid for an unreadable file.
    """
    entries = (entry for path in rule_files(paths) for entry in read_rule_file(path))
    return _with_one_record_a_rule(_validated(entry.where, entry.value, schema, limits) for entry in entries)


def plan_records(validated: Sequence[ValidatedRecord], in_force: RuleSet, source: str | None) -> list[PlannedRecord]:
    """Plan the records to write, in the order in which the log accepts them (see `in_writing_order`). A rule that is in
    force with the same content is not written again.

    Each record gets `source`; None keeps the record's own source, or else uses `cli`. Raises RulesRejected if any
    record was rejected.
    """
    rejected = sum(each.change is None for each in validated)
    if rejected:
        raise RulesRejected(f"{rejected} of {len(validated)} rules are not valid; nothing was written")
    documents: dict[int, Mapping[str, object]] = {
        rule_id: known.rule.document for rule_id, known in in_force.rules.items()
    }
    ordered = in_writing_order(validated, lambda each: each.change, in_force.naming)
    return [_planned(each.where, each.change, documents, source) for each in ordered if each.change is not None]


def log_faults(
    log: RuleTimeline, records: Sequence[bytes], schema: TransactionSchema, limits: RuleLimits
) -> list[tuple[Reason, ...]]:
    """For each record, the reasons why it does not fit the log and the records before it. Empty if it fits."""
    entries = (read_entry(log.end + i, 0, record, schema, limits) for i, record in enumerate(records))
    return [entry.reasons for entry in log.extended(entries).entries[len(log) :]]


def _validated(where: str, value: bytes, schema: TransactionSchema, limits: RuleLimits) -> ValidatedRecord:
    try:
        change = parse_rule_record(value, schema, limits)
    except RuleRejected as rejected:
        return ValidatedRecord(where, None, rejected.reasons)
    if isinstance(change, ListChange | MapChange):
        problem = f"belongs to a {change.kind}; write {change.kind}s with `fraud {change.kind}s`"
        return ValidatedRecord(where, None, (Reason(f"{change.kind}Name", problem),))
    return ValidatedRecord(where, change)


def _with_one_record_a_rule(validated: Iterable[ValidatedRecord]) -> list[ValidatedRecord]:
    """The records, each later record of a rule with the place of the first one as its fault."""
    found: list[ValidatedRecord] = []
    places: dict[int, str] = {}
    for each in validated:
        rule_id = None if each.change is None or isinstance(each.change, Control) else each.change.rule_id
        if rule_id in places:
            reason = Reason("ruleId", f"{rule_id} is the rule of {places[rule_id]} too; keep one of the records")
            found.append(ValidatedRecord(each.where, None, (reason,)))
            continue
        if rule_id is not None:
            places[rule_id] = each.where
        found.append(each)
    return found


def _planned(
    where: str, change: RuleChange, documents: dict[int, Mapping[str, object]], source: str | None
) -> PlannedRecord:
    """Plan one record, and update `documents`, the documents in force."""
    match change:
        case Rule(rule_id, document=given):
            document = {**given, "source": source or given.get("source") or DEFAULT_SOURCE}
            known = documents.get(rule_id)
            if known == document:
                return PlannedRecord(where, change, Effect.UNCHANGED, b"")
            documents[rule_id] = document
            return PlannedRecord(
                where, change, Effect.ADD if known is None else Effect.CHANGE, encode_document(document)
            )
        case RuleDeletion(rule_id):
            document = {"ruleId": rule_id, "ruleState": "DELETE", "source": source or DEFAULT_SOURCE}
            effect = Effect.UNCHANGED if documents.pop(rule_id, None) is None else Effect.DELETE
            return PlannedRecord(where, change, effect, encode_document(document) if effect.writes else b"")
        case Control(kind):
            return PlannedRecord(where, change, Effect.CONTROL, control_record(kind.value, source))


def control_record(control: str, source: str | None) -> bytes:
    """Encode a control as a record of the rule log."""
    document = {"ruleState": "CONTROL", "controlType": control, "source": source or DEFAULT_SOURCE}
    return encode_document(document)
