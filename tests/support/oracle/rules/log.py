"""The oracle's rule log: its records, and the rules and lists in force after any number of them.

Like the rest of `oracle`, this module is written from the specification alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Control, ControlType, RuleDeletion
from fraud_rules.model.schema import FieldType, TransactionSchema
from fraud_rules.model.value_list import ListChange, ListOperation, ListType
from tests.support.oracle.needs import Needs
from tests.support.oracle.refusal import Refused
from tests.support.oracle.rules import maps
from tests.support.oracle.rules.entities import entities_of
from tests.support.oracle.rules.maps import FoldedMap, MapChange
from tests.support.oracle.rules.reading import Change, read_record
from tests.support.oracle.rules.rule import Limits, Rule
from tests.support.oracle.stream import LONG_AGO_MS, Document, Grouping


@dataclass(frozen=True)
class LogEntry:
    version: int
    time_ms: int
    change: Change | None
    reasons: list[str] = field(default_factory=list)


def read_rule_log(document: Document, schema: TransactionSchema) -> list[LogEntry]:
    """The rule records. A rule's time is the running maximum by offset. A rejected record has used its version.

    A record has also used its version if a recorded batch refused it, for its state budget or its append time. Then its
    append time is in no rule time.
    """
    refused = {
        int(version): [f"{field_name}: {reason}" for field_name, reason in reasons]
        for batch in document.get("batches", [])
        for version, reasons in batch.get("refused", {}).items()
    }
    limits, entities = Limits.of(document.get("settings", {})), entities_of(document, schema)
    log: list[LogEntry] = []
    time_ms = LONG_AGO_MS
    for step in document["steps"]:
        if "rule" not in step:
            continue
        if len(log) not in refused:
            time_ms = max(time_ms, step["at"])
        record = step["rule"] if isinstance(step["rule"], str) else json.dumps(step["rule"])
        try:
            change = read_record(record, schema, limits, entities)
            reasons = against_log(change, fold(log))
        except (RuleRejected, Refused) as refusal:
            change, reasons = None, [str(refusal)]
        reasons += refused.get(len(log), [])
        log.append(LogEntry(len(log), time_ms, None if reasons else change, reasons))
    return log


@dataclass(frozen=True)
class ActiveRule:
    """A rule in force. `incarnation` is the version that added the rule or moved it to its grouping.

    `series` is the version with which the series of a rule with a resolution began.
    """

    rule: Rule
    version: int
    incarnation: int
    series: int


@dataclass(frozen=True)
class Boundary:
    """The start of a grouping, or a clear. Later rows do not count rows that arrived before `time_ms`."""

    version: int
    time_ms: int


@dataclass(frozen=True)
class FoldedList:
    """A list: `version` is that of the last accepted record, which may have left the values the same."""

    type: ListType
    version: int
    values: frozenset[int | str]


@dataclass
class FoldedRules:
    """What is in force after a number of records. `starts` also keeps the starts of ended groupings."""

    rules: dict[int, ActiveRule] = field(default_factory=dict)
    lists: dict[str, FoldedList] = field(default_factory=dict)
    maps: dict[str, FoldedMap] = field(default_factory=dict)
    starts: dict[Grouping, list[Boundary]] = field(default_factory=dict)
    clears: list[Boundary] = field(default_factory=list)

    @property
    def groupings(self) -> set[Grouping]:
        return {in_force.rule.grouping for in_force in self.rules.values()}

    def of(self, grouping: Grouping) -> list[ActiveRule]:
        """The rules that use the grouping, by rule id."""
        return [self.rules[rule_id] for rule_id in sorted(self.rules) if self.rules[rule_id].rule.grouping == grouping]

    def boundaries(self, grouping: Grouping) -> list[Boundary]:
        return self.starts.get(grouping, []) + self.clears

    def incarnation(self, grouping: Grouping) -> int:
        """The version that last started the grouping."""
        return self.starts[grouping][-1].version

    def epoch(self, grouping: Grouping) -> int:
        """The version of the last boundary: the grouping's start, or a later clear."""
        return max(boundary.version for boundary in self.boundaries(grouping))


def fold(log: Sequence[LogEntry]) -> FoldedRules:
    """Fold the records. A grouping ends when its last rule moves to another grouping."""
    folded = FoldedRules()
    for entry in log:
        here = Boundary(entry.version, entry.time_ms)
        match entry.change:
            case Rule() as rule:
                known = folded.rules.pop(rule.rule_id, None)
                stays = known is not None and known.rule.grouping == rule.grouping
                if not stays and rule.grouping not in folded.groupings:
                    folded.starts.setdefault(rule.grouping, []).append(here)
                folded.rules[rule.rule_id] = _edited(known if stays else None, rule, entry.version)
            case RuleDeletion(rule_id):
                folded.rules.pop(rule_id, None)
            case ListChange() as change:
                _apply_to_lists(folded.lists, entry.version, change)
            case MapChange() as change:
                maps.apply(folded.maps, entry.version, change)
            case Control(ControlType.DELETE_RULES_ALL):
                folded.rules.clear()
            case Control(ControlType.CLEAR_STATE_ALL | ControlType.CLEAR_STATE_ALL_STOP):
                folded.clears.append(here)
    return folded


def _edited(known: ActiveRule | None, rule: Rule, version: int) -> ActiveRule:
    """A version of a rule; `known` is the one before in the same grouping."""
    if known is None:
        return ActiveRule(rule, version, version, version)
    same = known.rule.meaning == rule.meaning
    return ActiveRule(rule, version, known.incarnation, known.series if same else version)


# What the log before a record speaks against


def against_log(change: Change, folded: FoldedRules) -> list[str]:
    """The reasons why the log before a record speaks against it."""
    match change:
        case Rule():
            return [*_missing(change.needs, folded), *_naming(change, folded)]
        case RuleDeletion(rule_id):
            return [f"ruleId: rule {other} names it" for other in _naming_rules(rule_id, folded)]
        case ListChange():
            return [] if _list_fits(change, folded) else [f"listName: {change.name}"]
        case MapChange():
            used = any(change.name in each.rule.needs.maps for each in folded.rules.values())
            return maps.reasons_against(change, folded.maps, used=used)
    return []


def _missing(needs: Needs, folded: FoldedRules) -> list[str]:
    """The lists and maps that a rule names, and that are not there or of another type."""
    lists = {name: {FieldType(known.type.value)} for name, known in folded.lists.items()}
    there = {name: {(known.key_type, known.value_type)} for name, known in folded.maps.items()}
    return [
        *(f"when: {name}" for name, needed in needs.lists.items() if lists.get(name) != needed),
        *(f"map: {name}" for name, needed in needs.maps.items() if there.get(name) != needed),
    ]


def _naming(rule: Rule, folded: FoldedRules) -> list[str]:
    """What the rules in force say about the rules that a rule names, and about naming rules while being named."""
    plain = [rule_id for rule_id, other in folded.rules.items() if not other.rule.named]
    wrong = [f"conditions: rule {rule_id} is missing or names rules" for rule_id in rule.named if rule_id not in plain]
    if rule.named:
        wrong += [f"conditions: rule {other} names this rule" for other in _naming_rules(rule.rule_id, folded)]
    return wrong


def _naming_rules(rule_id: int, folded: FoldedRules) -> list[int]:
    """The rules in force that name a rule."""
    return [other for other, in_force in folded.rules.items() if rule_id in in_force.rule.named]


def _list_fits(change: ListChange, folded: FoldedRules) -> bool:
    known = folded.lists.get(change.name)
    used = any(change.name in each.rule.needs.lists for each in folded.rules.values())
    if change.operation is ListOperation.SET:
        if len(set(change.values())) > RuleLimits().max_list_values:
            return False
        if known is None:
            return len(folded.lists) < RuleLimits().max_lists
        return not used or known.type is change.type
    if known is None or (change.type is not None and change.type is not known.type):
        return False
    if change.operation is ListOperation.ADD:
        return len(known.values.union(change.values())) <= RuleLimits().max_list_values
    return change.operation is ListOperation.REMOVE or not used


def _apply_to_lists(lists: dict[str, FoldedList], version: int, change: ListChange) -> None:
    values = frozenset(change.values())
    known = lists.pop(change.name, None)
    match change.operation:
        case ListOperation.SET:
            assert change.type is not None
            lists[change.name] = FoldedList(change.type, version, values)
        case ListOperation.ADD | ListOperation.REMOVE:
            assert known is not None
            adds = change.operation is ListOperation.ADD
            lists[change.name] = FoldedList(
                known.type, version, known.values | values if adds else known.values - values
            )
