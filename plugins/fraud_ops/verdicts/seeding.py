"""What the seed files ask of the rule log: pure. Only records whose source is `seed` are ever touched."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fraud_rules.codec.rules.apply import Judged, RulesRejected
from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleSet

__all__ = ["SEED", "SeedChange", "SeedEffect", "SeedPlan", "seed_plan"]

SEED: Final = "seed"


class SeedEffect(StrEnum):
    """What applying a seed rule does."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    UNCHANGED = "unchanged"
    LEFT_ALONE = "left alone"  # somebody else's rule has this id

    @property
    def writes(self) -> bool:
        """Whether a record goes to the rule log."""
        return self in (SeedEffect.CREATE, SeedEffect.CHANGE, SeedEffect.DELETE)


@dataclass(frozen=True, slots=True)
class SeedChange:
    """One rule. `record` is empty where nothing is written; `details` says what differs, `approvers` who may approve:
    None where nobody has to, empty for anybody who may approve rules at all."""

    rule_id: int
    effect: SeedEffect
    details: str
    record: bytes = b""
    approvers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SeedPlan:
    """All rules of the files and of the log, by id. `digest` is the same for the same records to write."""

    changes: tuple[SeedChange, ...]

    @property
    def to_write(self) -> Sequence[SeedChange]:
        """Those that write a record."""
        return [change for change in self.changes if change.effect.writes]

    @property
    def to_approve(self) -> Sequence[SeedChange]:
        """Those that somebody has to approve first."""
        return [change for change in self.to_write if change.approvers is not None]

    @property
    def digest(self) -> str:
        """What an approval is about."""
        return hashlib.sha256(b"\n".join(change.record for change in self.to_write)).hexdigest()

    def table(self) -> str:
        """For people, in Markdown."""
        rows = [f"| {each.rule_id} | {each.effect} | {_cell(each.details)} |" for each in self.changes]
        return "\n".join(["| rule | | |", "| ---: | --- | --- |", *rows])


def seed_plan(judged: Sequence[Judged], in_force: RuleSet) -> SeedPlan:
    """What to write, by rule id. Raises RulesRejected when a file holds anything but valid rules, each id once."""
    rules = _rules(judged)
    changes = [_of_file(rule, _document(in_force, rule.rule_id)) for rule in rules.values()]
    known = ((rule_id, _document(in_force, rule_id)) for rule_id in in_force.rules if rule_id not in rules)
    changes += [_deletion(rule_id, document) for rule_id, document in known if document.get("source") == SEED]
    return SeedPlan(tuple(sorted(changes, key=lambda change: change.rule_id)))


def _rules(judged: Sequence[Judged]) -> dict[int, Rule]:
    rules: dict[int, Rule] = {}
    faults: list[str] = []
    for each in judged:
        if not isinstance(each.change, Rule):
            why = "; ".join(map(str, each.reasons)) or "only rules can be seeded; delete one by deleting its file"
            faults.append(f"{each.where}: {why}")
        elif each.change.rule_id in rules:
            faults.append(f"{each.where}: rule {each.change.rule_id} is in another file too")
        else:
            rules[each.change.rule_id] = each.change
    if faults:
        raise RulesRejected("nothing is seeded: " + "; ".join(faults))
    return rules


def _document(in_force: RuleSet, rule_id: int) -> Mapping[str, Any]:
    known = in_force.rules.get(rule_id)
    return {} if known is None else known.rule.document


def _of_file(rule: Rule, known: Mapping[str, Any]) -> SeedChange:
    wanted = {**rule.document, "source": SEED}
    if known and known.get("source") != SEED:
        whose = known.get("source") or "somebody who does not say"
        return SeedChange(rule.rule_id, SeedEffect.LEFT_ALONE, f"belongs to {whose}; give the seed rule another id")
    if known == wanted:
        return SeedChange(rule.rule_id, SeedEffect.UNCHANGED, "")
    effect = SeedEffect.CHANGE if known else SeedEffect.CREATE
    details = _differences(known, wanted) if known else str(wanted.get("name", ""))
    return SeedChange(rule.rule_id, effect, details, encode_document(wanted), _approvers(wanted, known))


def _deletion(rule_id: int, known: Mapping[str, Any]) -> SeedChange:
    record = encode_document({"ruleId": rule_id, "ruleState": "DELETE", "source": SEED})
    return SeedChange(rule_id, SeedEffect.DELETE, str(known.get("name", "")), record, _approvers(known))


def _approvers(*documents: Mapping[str, Any]) -> tuple[str, ...] | None:
    """`approve: true` asks anybody who may approve, `approve: ann, bob` one of those; None where nobody asks."""
    asked = [each for document in documents if (each := document.get("approve", False))]
    if not asked:
        return None
    named = [name.strip() for each in asked if isinstance(each, str) for name in each.split(",")]
    return tuple(dict.fromkeys(name for name in named if name))


def _differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    names = [name for name in {**known, **wanted} if known.get(name) != wanted.get(name)]
    return "; ".join(f"{name}: {known.get(name, '-')} → {wanted.get(name, '-')}" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
