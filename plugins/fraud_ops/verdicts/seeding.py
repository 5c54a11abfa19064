"""Compares the seed files with the rule log. Pure. It only changes rules whose source is `seed`."""

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

__all__ = ["SEED", "SeedChange", "SeedEffect", "SeedPlan", "seed_plan"]

SEED: Final = "seed"


class SeedEffect(StrEnum):
    """The effect of applying a seed rule."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    UNCHANGED = "unchanged"
    LEFT_ALONE = "left alone"  # a rule of another source has this id

    @property
    def writes(self) -> bool:
        """Whether a record goes to the rule log."""
        return self in (SeedEffect.CREATE, SeedEffect.CHANGE, SeedEffect.DELETE)


@dataclass(frozen=True, slots=True)
class SeedChange:
    """The change of one rule. `record` is empty if there is nothing to write. `details` names the differences.
    `approvers` are the users who may approve: None if no approval is needed, empty for every approver of rules."""

    rule_id: int
    effect: SeedEffect
    details: str
    record: bytes = b""
    approvers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SeedPlan:
    """The changes of all rules of the files and the log, ordered by rule id."""

    changes: tuple[SeedChange, ...]

    @property
    def to_write(self) -> Sequence[SeedChange]:
        """The changes that write a record."""
        return [change for change in self.changes if change.effect.writes]

    @property
    def to_approve(self) -> Sequence[SeedChange]:
        """The changes that need an approval before they are written."""
        return [change for change in self.to_write if change.approvers is not None]

    @property
    def digest(self) -> str:
        """The digest of the records to write. An approval holds for one digest."""
        return hashlib.sha256(b"\n".join(change.record for change in self.to_write)).hexdigest()

    def table(self) -> str:
        """The plan as a Markdown table."""
        rows = [f"| {each.rule_id} | {each.effect} | {_cell(each.details)} |" for each in self.changes]
        return "\n".join(["| rule | | |", "| ---: | --- | --- |", *rows])


def seed_plan(validated: Sequence[ValidatedRecord], in_force: RuleSet) -> SeedPlan:
    """The plan. Raises RulesRejected if a file has an invalid rule or another record, or if an id occurs twice."""
    rules = _rules(validated)
    changes = [_of_file(rule, _document(in_force, rule.rule_id)) for rule in rules.values()]
    known = ((rule_id, _document(in_force, rule_id)) for rule_id in in_force.rules if rule_id not in rules)
    changes += [_deletion(rule_id, document) for rule_id, document in known if document.get("source") == SEED]
    return SeedPlan(tuple(sorted(changes, key=lambda change: change.rule_id)))


def _rules(validated: Sequence[ValidatedRecord]) -> dict[int, Rule]:
    rules: dict[int, Rule] = {}
    faults: list[str] = []
    for each in validated:
        if not isinstance(each.change, Rule):
            why = "; ".join(map(str, each.reasons)) or "seed files hold rules only; to delete a rule, delete its file"
            faults.append(f"{each.where}: {why}")
        elif each.change.rule_id in rules:
            faults.append(f"{each.where}: another file has rule {each.change.rule_id} too")
        else:
            rules[each.change.rule_id] = each.change
    if faults:
        raise RulesRejected("no rule is seeded: " + "; ".join(faults))
    return rules


def _document(in_force: RuleSet, rule_id: int) -> Mapping[str, Any]:
    known = in_force.rules.get(rule_id)
    return {} if known is None else known.rule.document


def _of_file(rule: Rule, known: Mapping[str, Any]) -> SeedChange:
    wanted = {**rule.document, "source": SEED}
    if known and known.get("source") != SEED:
        owner = known.get("source") or "an unknown source"
        return SeedChange(rule.rule_id, SeedEffect.LEFT_ALONE, f"belongs to {owner}; give the seed rule another id")
    if known == wanted:
        return SeedChange(rule.rule_id, SeedEffect.UNCHANGED, "")
    effect = SeedEffect.CHANGE if known else SeedEffect.CREATE
    details = _differences(known, wanted) if known else str(wanted.get("name", ""))
    return SeedChange(rule.rule_id, effect, details, encode_document(wanted), _approvers(wanted, known))


def _deletion(rule_id: int, known: Mapping[str, Any]) -> SeedChange:
    record = encode_document({"ruleId": rule_id, "ruleState": "DELETE", "source": SEED})
    return SeedChange(rule_id, SeedEffect.DELETE, str(known.get("name", "")), record, _approvers(known))


def _approvers(*documents: Mapping[str, Any]) -> tuple[str, ...] | None:
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
