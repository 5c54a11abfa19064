"""The rules in force after some entries of the rule log, and the fold that computes them.

A fold decodes only the entries that decide its result. A revision that keeps the grouping of a rule in force changes no
incarnation and no grouping, whether it is valid or not. So the fold collects these revisions without decoding them, and
at its end decodes the last ones of each rule, back to the last valid one. All other entries are decoded in their order,
also each revision of a rule with a long window, because it can begin a series.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fraud_rules.model.log_entry import Grouping, LogEntry, UndecodedRule
from fraud_rules.model.rule import Control, ControlType, Rule, RuleDeletion

_ENDED_GROUPINGS = 1_000
_ENDED_RULES = 10_000
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """A rule in force, with its version and its incarnation.

    `version` is the offset of the rule's record. `incarnation` is the offset of the record that added the rule or moved
    it to this grouping. An edit that keeps the grouping keeps the incarnation, so resets and cool-downs outlive it.
    `series` is the version with which the sums of a long window began; None for any other rule. `is_named`: a rule in
    force names this one.
    """

    rule: Rule
    version: int
    incarnation: int
    series: int | None = None
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class GroupingInForce:
    """A grouping in force, with its rules. The rules share the grouping's state.

    `incarnation` is the offset of the record that started the grouping. `epoch` is the offset of the last boundary (the
    start, or a later clear), and `epoch_ms` is the boundary's rule time. Windows exclude transactions that arrived
    before the boundary. `rules` is sorted by rule id and includes paused and shadow rules. `widest_window_ms` is the
    longest time for which one of these rules keeps rows. `long_rules` are those among them that have sums by step.
    """

    fields: Grouping
    incarnation: int
    epoch: int
    epoch_ms: int
    rules: tuple[RuleInForce, ...]
    widest_window_ms: int
    long_rules: tuple[RuleInForce, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules in force by id, and their groupings. `stopped_at` is the offset of the last CLEAR_STATE_ALL_STOP.

    `ended_ms` has the rule times at which the last groupings ended that are not in force, oldest first.
    `ended_rules_ms` has those at which the last incarnations of rules ended, oldest first. `cleared_ms` is the rule
    time of the last clear, 0 without one. `naming` has the rules that a rule names, by the id of the naming rule.
    """

    rules: Mapping[int, RuleInForce] = field(default_factory=dict)
    groupings: Mapping[Grouping, GroupingInForce] = field(default_factory=dict)
    stopped_at: int | None = None
    ended_ms: Mapping[Grouping, int] = field(default_factory=dict)
    ended_rules_ms: Mapping[int, int] = field(default_factory=dict)
    cleared_ms: int = 0
    naming: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class RuleFold:
    """A mutable rule set. It copies the dictionaries of `base` once, and rebuilds the changed groupings at the end.

    By rule id, `_changed` has the rules of the changed groupings, and `_revisions` the undecoded revisions of rules in
    force, oldest first.
    """

    def __init__(self, base: RuleSet) -> None:
        self._rules = dict(base.rules)
        self._groupings = dict(base.groupings)
        self._changed: dict[Grouping, dict[int, RuleInForce]] = {}
        self._revisions: dict[int, list[LogEntry]] = {}
        self._stopped_at = base.stopped_at
        self._ended_ms = dict(base.ended_ms)
        self._ended_rules_ms = dict(base.ended_rules_ms)
        self._cleared_ms = base.cleared_ms
        self._naming = dict(base.naming)

    @property
    def rules(self) -> Mapping[int, RuleInForce]:
        """The rules in force after the decoded entries so far."""
        return self._rules

    def apply(self, entry: LogEntry) -> None:
        """Apply one entry. A rejected entry changes nothing."""
        content = entry.content
        if isinstance(content, UndecodedRule) and self._keeps_grouping(content):
            if not content.may_be_long and self._rules[content.rule_id].series is None:
                self._revisions.setdefault(content.rule_id, []).append(entry)
                return
            self._apply_last_valid(self._revisions.pop(content.rule_id, []))
        match entry.change:
            case Rule() as rule:
                self._put(rule, entry)
            case RuleDeletion(rule_id):
                self._remove(rule_id, entry)
            case Control(ControlType.DELETE_RULES_ALL):
                for fields in self._groupings:
                    _remember(self._ended_ms, fields, entry, _ENDED_GROUPINGS)
                for in_force in self._rules.values():
                    _remember(self._ended_rules_ms, in_force.incarnation, entry, _ENDED_RULES)
                self._rules, self._groupings, self._changed, self._revisions = {}, {}, {}, {}
                self._naming = {}
            case Control(control) if control.clears_state:
                self._clear(entry)
                if control is ControlType.CLEAR_STATE_ALL_STOP:
                    self._stopped_at = entry.version

    def rule_set(self) -> RuleSet:
        """Return the resulting rule set. Do not use the fold afterwards."""
        for revisions in list(self._revisions.values()):
            self._apply_last_valid(revisions)
        for fields, by_id in self._changed.items():
            rules = tuple(by_id[rule_id] for rule_id in sorted(by_id))
            widest = max(in_force.rule.retained_ms for in_force in rules)
            long_rules = tuple(in_force for in_force in rules if in_force.series is not None)
            self._groupings[fields] = replace(
                self._groupings[fields], rules=rules, widest_window_ms=widest, long_rules=long_rules
            )
        return RuleSet(
            self._rules,
            self._groupings,
            self._stopped_at,
            self._ended_ms,
            self._ended_rules_ms,
            self._cleared_ms,
            self._naming,
        )

    def _keeps_grouping(self, rule: Rule | UndecodedRule) -> bool:
        previous = self._rules.get(rule.rule_id)
        return previous is not None and previous.rule.grouping == rule.grouping

    def _apply_last_valid(self, revisions: list[LogEntry]) -> None:
        for entry in reversed(revisions):
            if isinstance(entry.change, Rule):
                self._put(entry.change, entry)
                return

    def _put(self, rule: Rule, entry: LogEntry) -> None:
        incarnation = entry.version
        series = entry.version if rule.window.is_long else None
        if self._keeps_grouping(rule):
            known = self._rules[rule.rule_id]
            incarnation = known.incarnation
            if known.rule.series_members == rule.series_members:
                series = known.series
        else:
            self._remove(rule.rule_id, entry)
        self._revisions.pop(rule.rule_id, None)
        in_force = RuleInForce(rule, entry.version, incarnation, series, self._is_named(rule.rule_id))
        self._rules[rule.rule_id] = in_force
        self._started(rule.grouping, entry)[rule.rule_id] = in_force
        self._name(rule.rule_id, rule.named_rules)

    def _remove(self, rule_id: int, entry: LogEntry) -> None:
        removed = self._rules.pop(rule_id, None)
        self._revisions.pop(rule_id, None)
        if removed is None:
            return
        _remember(self._ended_rules_ms, removed.incarnation, entry, _ENDED_RULES)
        fields = removed.rule.grouping
        by_id = self._mutable_rules(fields)
        del by_id[rule_id]
        if not by_id:
            del self._groupings[fields], self._changed[fields]
            _remember(self._ended_ms, fields, entry, _ENDED_GROUPINGS)
        self._name(rule_id, ())

    def _name(self, rule_id: int, named: tuple[int, ...]) -> None:
        """Record the rules that a rule names. Each rule in force says whether one names it."""
        before = self._naming.pop(rule_id, ())
        if named:
            self._naming[rule_id] = named
        for each in {*before, *named}:
            known = self._rules.get(each)
            if known is not None and known.is_named != self._is_named(each):
                changed = self._rules[each] = replace(known, is_named=not known.is_named)
                self._mutable_rules(known.rule.grouping)[each] = changed

    def _is_named(self, rule_id: int) -> bool:
        return any(rule_id in named for named in self._naming.values())

    def _clear(self, entry: LogEntry) -> None:
        self._cleared_ms = entry.time_ms
        self._groupings = {
            fields: replace(grouping, epoch=entry.version, epoch_ms=entry.time_ms)
            for fields, grouping in self._groupings.items()
        }

    def _started(self, fields: Grouping, entry: LogEntry) -> dict[int, RuleInForce]:
        """The mutable rules of a grouping. The entry starts a grouping that has no rules."""
        if fields not in self._groupings:
            self._ended_ms.pop(fields, None)
            self._groupings[fields] = GroupingInForce(fields, entry.version, entry.version, entry.time_ms, (), 0)
        return self._mutable_rules(fields)

    def _mutable_rules(self, fields: Grouping) -> dict[int, RuleInForce]:
        by_id = self._changed.get(fields)
        if by_id is None:
            by_id = {in_force.rule.rule_id: in_force for in_force in self._groupings[fields].rules}
            self._changed[fields] = by_id
        return by_id


def _remember(ended_ms: dict[_Key, int], ended: _Key, entry: LogEntry, most: int) -> None:
    """Remember when a grouping, or an incarnation of a rule, ended. Remember the last ones only: a detector removes the
    state of a grouping, and the marks of a rule, ten minutes after the end, or treats it as ended long ago."""
    ended_ms[ended] = entry.time_ms
    if len(ended_ms) > most:
        del ended_ms[next(iter(ended_ms))]
