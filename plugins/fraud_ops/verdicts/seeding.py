"""Compares the seed files of rules with the rule log. Pure. It only changes rules whose source is `seed`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from fraud_rules.codec.rules.apply import RulesRejected, ValidatedRecord
from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.model.rule import Rule, RuleDeletion
from fraud_rules.model.rule_fold import RuleInForce
from fraud_rules.model.rule_names import in_writing_order
from fraud_rules.model.ruleset import RuleSet

SEED: Final = "seed"


class SeedEffect(StrEnum):
    """The effect of applying a seed rule, list or map."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    UNCHANGED = "unchanged"
    LEFT_ALONE = "left alone"  # a rule, list or map of another source has this id or name

    @property
    def writes(self) -> bool:
        """Whether a record goes to the rule log."""
        return self in (SeedEffect.CREATE, SeedEffect.CHANGE, SeedEffect.DELETE)


@dataclass(frozen=True, slots=True)
class SeedChange:
    """The change of one rule, list or map. There are no `records` if there is nothing to write; `key` is their key.
    `details` names the differences. `rule` is the change of a rule.
    """

    subject: str
    effect: SeedEffect
    details: str
    key: bytes = b""
    records: tuple[bytes, ...] = ()
    rule: Rule | RuleDeletion | None = None


@dataclass(frozen=True, slots=True)
class SeedPlan:
    """The changes of all rules, lists and maps of the files and the log: lists and maps by name, then rules by id.

    `naming` has the names of the rules in force.
    """

    changes: tuple[SeedChange, ...]
    collections: tuple[SeedChange, ...] = ()
    naming: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def to_write(self) -> Sequence[SeedChange]:
        """The changes that write records, in their order: a list or map comes before the rules that name it, and
        its deletion after them. For the order of rules, see `in_writing_order`.
        """
        gone = [change for change in self.collections if change.effect is SeedEffect.DELETE]
        kept = [change for change in self.collections if change.effect is not SeedEffect.DELETE]
        rules = [change for change in self.changes if change.effect.writes]
        ordered = in_writing_order(rules, lambda each: each.rule, self.naming)
        return [change for change in (*kept, *ordered, *gone) if change.effect.writes]

    @property
    def records(self) -> Sequence[tuple[bytes, bytes]]:
        """The keys and values of the records to write, in order."""
        return [(change.key, record) for change in self.to_write for record in change.records]

    def table(self) -> str:
        """The plan as a Markdown table."""
        changes = (*self.collections, *self.changes)
        rows = [f"| {each.subject} | {each.effect} | {_cell(each.details)} |" for each in changes]
        return "\n".join(["| rule, list or map | | |", "| --- | --- | --- |", *rows])


def seed_plan(validated: Sequence[ValidatedRecord], in_force: RuleSet) -> SeedPlan:
    """The plan. Raises RulesRejected if a file has an invalid rule or another record."""
    rules = _rules(validated)
    changes = {rule_id: _of_file(rule, in_force.rules.get(rule_id)) for rule_id, rule in rules.items()}
    gone = [known for rule_id, known in in_force.rules.items() if rule_id not in rules]
    changes |= {
        known.rule.rule_id: _deletion(known.rule) for known in gone if known.rule.document.get("source") == SEED
    }
    return SeedPlan(tuple(changes[rule_id] for rule_id in sorted(changes)), naming=in_force.naming)


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


def _of_file(rule: Rule, in_force: RuleInForce | None) -> SeedChange:
    known = {} if in_force is None else in_force.rule.document
    declared, subject = {**rule.document, "source": SEED}, f"rule {rule.rule_id}"
    if known and known.get("source") != SEED:
        owner = known.get("source") or "an unknown source"
        return SeedChange(subject, SeedEffect.LEFT_ALONE, f"belongs to {owner}; give the seed rule another id")
    if known == declared:
        return SeedChange(subject, SeedEffect.UNCHANGED, "")
    effect = SeedEffect.CHANGE if known else SeedEffect.CREATE
    details = _differences(known, declared) if known else str(declared.get("name", ""))
    return SeedChange(subject, effect, details, _key(rule.rule_id), (encode_document(declared),), rule)


def _deletion(rule: Rule) -> SeedChange:
    record = encode_document({"ruleId": rule.rule_id, "ruleState": "DELETE", "source": SEED})
    name, change = str(rule.document.get("name", "")), RuleDeletion(rule.rule_id)
    return SeedChange(f"rule {rule.rule_id}", SeedEffect.DELETE, name, _key(rule.rule_id), (record,), change)


def _key(rule_id: int) -> bytes:
    return str(rule_id).encode()


def _differences(known: Mapping[str, Any], declared: Mapping[str, Any]) -> str:
    names = [name for name in {**known, **declared} if known.get(name) != declared.get(name)]
    return "; ".join(f"{name}: {known.get(name, '-')} → {declared.get(name, '-')}" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
