"""Compares the seed files of rules with the rule log. Pure. It only changes rules whose source is `seed`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fraud_rules.codec.rules.apply import RulesRejected, ValidatedRecord
from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleSet

__all__ = ["SEED", "SeedChange", "SeedEffect", "SeedPlan", "approvers_of", "seed_plan"]

SEED: Final = "seed"


class SeedEffect(StrEnum):
    """The effect of applying a seed rule or list."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    UNCHANGED = "unchanged"
    LEFT_ALONE = "left alone"  # a rule or list of another source has this id or name

    @property
    def writes(self) -> bool:
        """Whether a record goes to the rule log."""
        return self in (SeedEffect.CREATE, SeedEffect.CHANGE, SeedEffect.DELETE)


@dataclass(frozen=True, slots=True)
class SeedChange:
    """The change of one rule or list. There are no `records` if there is nothing to write; `key` is their key.
    `details` names the differences. `approvers` are the users who may approve: None if no approval is needed, empty for
    every approver of rules."""

    subject: str
    effect: SeedEffect
    details: str
    key: bytes = b""
    records: tuple[bytes, ...] = ()
    approvers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SeedPlan:
    """The changes of all rules and lists of the files and the log: lists by name, then rules by id."""

    changes: tuple[SeedChange, ...]
    lists: tuple[SeedChange, ...] = ()

    @property
    def to_write(self) -> Sequence[SeedChange]:
        """The changes that write records, in their order: a list comes before the rules that name it, and the deletion
        of a list after them.
        """
        gone = [change for change in self.lists if change.effect is SeedEffect.DELETE]
        kept = [change for change in self.lists if change.effect is not SeedEffect.DELETE]
        return [change for change in (*kept, *self.changes, *gone) if change.effect.writes]

    @property
    def records(self) -> Sequence[tuple[bytes, bytes]]:
        """The keys and values of the records to write, in order."""
        return [(change.key, record) for change in self.to_write for record in change.records]

    @property
    def to_approve(self) -> Sequence[SeedChange]:
        """The changes that need an approval before they are written."""
        return [change for change in self.to_write if change.approvers is not None]

    @property
    def digest(self) -> str:
        """The digest of the records to write. An approval holds for one digest."""
        return hashlib.sha256(b"\n".join(record for _, record in self.records)).hexdigest()

    def table(self) -> str:
        """The plan as a Markdown table."""
        changes = (*self.lists, *self.changes)
        rows = [f"| {each.subject} | {each.effect} | {_cell(each.details)} |" for each in changes]
        return "\n".join(["| rule or list | | |", "| --- | --- | --- |", *rows])


def seed_plan(validated: Sequence[ValidatedRecord], in_force: RuleSet) -> SeedPlan:
    """The plan. Raises RulesRejected if a file has an invalid rule or another record."""
    rules = _rules(validated)
    changes = {rule_id: _of_file(rule, _document(in_force, rule_id)) for rule_id, rule in rules.items()}
    known = ((rule_id, _document(in_force, rule_id)) for rule_id in in_force.rules if rule_id not in rules)
    changes |= {rule_id: _deletion(rule_id, document) for rule_id, document in known if document.get("source") == SEED}
    return SeedPlan(tuple(changes[rule_id] for rule_id in sorted(changes)))


def _rules(validated: Sequence[ValidatedRecord]) -> dict[int, Rule]:
    rules: dict[int, Rule] = {}
    faults: list[str] = []
    for each in validated:
        if not isinstance(each.change, Rule):
            why = "; ".join(map(str, each.reasons)) or "seed files hold rules only; to delete a rule, delete its file"
            faults.append(f"{each.where}: {why}")
        else:
            rules[each.change.rule_id] = each.change
    if faults:
        raise RulesRejected("no rule is seeded: " + "; ".join(faults))
    return rules


def _document(in_force: RuleSet, rule_id: int) -> Mapping[str, Any]:
    known = in_force.rules.get(rule_id)
    return {} if known is None else known.rule.document


def _of_file(rule: Rule, known: Mapping[str, Any]) -> SeedChange:
    wanted, subject = {**rule.document, "source": SEED}, f"rule {rule.rule_id}"
    if known and known.get("source") != SEED:
        owner = known.get("source") or "an unknown source"
        return SeedChange(subject, SeedEffect.LEFT_ALONE, f"belongs to {owner}; give the seed rule another id")
    if known == wanted:
        return SeedChange(subject, SeedEffect.UNCHANGED, "")
    effect = SeedEffect.CHANGE if known else SeedEffect.CREATE
    details = _differences(known, wanted) if known else str(wanted.get("name", ""))
    return SeedChange(
        subject, effect, details, _key(rule.rule_id), (encode_document(wanted),), approvers_of(wanted, known)
    )


def _deletion(rule_id: int, known: Mapping[str, Any]) -> SeedChange:
    record = encode_document({"ruleId": rule_id, "ruleState": "DELETE", "source": SEED})
    name = str(known.get("name", ""))
    return SeedChange(f"rule {rule_id}", SeedEffect.DELETE, name, _key(rule_id), (record,), approvers_of(known))


def _key(rule_id: int) -> bytes:
    return str(rule_id).encode()


def approvers_of(*documents: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Read `approve`: `true` requires an approval by any approver, `ann, bob` by one of them. None requires none."""
    approvals = [each for document in documents if (each := document.get("approve", False))]
    if not approvals:
        return None
    named = [name.strip() for each in approvals if isinstance(each, str) for name in each.split(",")]
    return tuple(dict.fromkeys(name for name in named if name))


def _differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    names = [name for name in {**known, **wanted} if known.get(name) != wanted.get(name)]
    return "; ".join(f"{name}: {known.get(name, '-')} → {wanted.get(name, '-')}" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
