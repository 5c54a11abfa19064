"""The rules that name rules, and the rejections that follow from the log before a record.

A rule can name rules that are in force and name no rules. While it does, they can be neither deleted nor name rules
themselves. So names have no circles, and a name always has a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import TypeVar

from fraud_rules.errors import Reason
from fraud_rules.model.log_entry import LogEntry, UndecodedRule
from fraud_rules.model.rule import LogChange, NamedRule, Rule, RuleDeletion
from fraud_rules.model.rule_fold import RuleSet

T = TypeVar("T")

_SHOWN = 20  # rules in a message


class NamesInForce:
    """The rules in force and their names, while entries are added one by one after a rule set.

    A record that nothing has decoded is decoded only if a rule names the rule in it.
    """

    def __init__(self, before: RuleSet) -> None:
        self._before = before.rules
        self._in_force: dict[int, bool] = {}
        self._undecoded: dict[int, list[LogEntry]] = {}
        self.naming: dict[int, tuple[int, ...]] = dict(before.naming)
        """The rules that each rule names, by the id of the naming rule."""

    def add_undecoded(self, rule_id: int, entry: LogEntry) -> None:
        """Add a record that is a rule without names, or invalid."""
        if not self._was_in_force(rule_id):
            self._undecoded.setdefault(rule_id, []).append(entry)

    def put(self, rule: Rule) -> None:
        """Add an accepted rule."""
        self._in_force[rule.rule_id] = True
        self.naming.pop(rule.rule_id, None)
        if rule.named_rules:
            self.naming[rule.rule_id] = rule.named_rules

    def remove(self, rule_id: int) -> None:
        """Add an accepted deletion."""
        self._in_force[rule_id] = False
        self._undecoded.pop(rule_id, None)
        self.naming.pop(rule_id, None)

    def clear(self) -> None:
        """Delete all rules."""
        self._before, self._in_force, self._undecoded, self.naming = {}, {}, {}, {}

    def faults(self, rule: Rule) -> list[Reason]:
        """The reasons why a rule does not fit the rules in force."""
        return naming_faults(rule, self._is_in_force, self.naming) if rule.named_rules else []

    def _is_in_force(self, rule_id: int) -> bool:
        found = self._undecoded.get(rule_id, ())
        return self._was_in_force(rule_id) or any(isinstance(each.change, Rule) for each in found)

    def _was_in_force(self, rule_id: int) -> bool:
        return self._in_force.get(rule_id, rule_id in self._before)


def names_rules(entries: Iterable[LogEntry]) -> bool:
    """Whether a rule of the log names rules. To conclude these, an evaluation needs the outcomes of all key groups."""
    may_name = (each for each in entries if not isinstance(each.content, UndecodedRule) or each.content.may_name)
    return any(isinstance(each.change, Rule) and each.change.named_rules for each in may_name)


def naming_faults(
    rule: Rule, is_in_force: Callable[[int], bool], naming: Mapping[int, tuple[int, ...]]
) -> list[Reason]:
    """The reasons why a rule that names rules does not fit those in force.

    `is_in_force` says whether a rule id is in force, and `naming` has the names of the rules in force.
    """
    found = []
    users = _users(rule.rule_id, naming)
    for i, condition in enumerate(rule.conditions):
        if not isinstance(condition, NamedRule):
            continue
        member, rule_id = f"conditions[{i}].ruleId", condition.rule_id
        if not is_in_force(rule_id):
            found.append(Reason(member, f"there is no rule {rule_id}"))
        elif rule_id in naming:
            found.append(Reason(member, f"rule {rule_id} names rules itself"))
        elif users:
            found.append(Reason(member, f"cannot name a rule: {users} this one"))
    return found


def deletion_faults(rule_id: int, naming: Mapping[int, tuple[int, ...]]) -> list[Reason]:
    """The reasons why a rule cannot be deleted."""
    users = _users(rule_id, naming)
    return [Reason("ruleId", f"cannot delete the rule: {users} it")] if users else []


def in_writing_order(
    items: Iterable[T], change_of: Callable[[T], LogChange | None], naming: Mapping[int, tuple[int, ...]]
) -> list[T]:
    """Sort items that are written together, so that the log accepts them: a rule follows the rules that it names. The
    deletion of a rule, and a version of it that names rules, follow the changes of the rules that have named it.

    `naming` has the names of the rules in force before. No rule is moved across an item of another kind, or across
    another change of a rule between them.
    """
    found: list[T] = []
    run: dict[int, tuple[int, T]] = {}
    is_named = {rule_id for names in naming.values() for rule_id in names}

    def end_run() -> None:
        found.extend(item for _, item in sorted(run.values(), key=itemgetter(0)))
        run.clear()

    for item in items:
        change = change_of(item)
        if not isinstance(change, Rule | RuleDeletion):
            end_run()
            found.append(item)
            continue
        if change.rule_id in run:
            end_run()
        run[change.rule_id] = _rank(change, change.rule_id in naming, change.rule_id in is_named), item
    end_run()
    return found


def _rank(change: Rule | RuleDeletion, names_before: bool, is_named: bool) -> int:
    """The place of a change among changes of other rules. `names_before`: the rule in force names rules. `is_named`: a
    rule in force names it.
    """
    if isinstance(change, RuleDeletion):
        return 3 if is_named else 0
    if not change.named_rules:
        return 0
    return 1 if names_before else 2


def _users(rule_id: int, naming: Mapping[int, tuple[int, ...]]) -> str:
    """The rules that name a rule, as the subject and verb of a sentence; empty if there is none."""
    users = sorted(other for other, named in naming.items() if rule_id in named)
    if not users:
        return ""
    return f"rule {users[0]} names" if len(users) == 1 else f"rules {', '.join(map(str, users[:_SHOWN]))} name"
