"""Concludes the rules that name rules: whether they hold depends on outcomes in other groupings. Pure.

The rules that a rule names have other grouping keys, so their outcomes for a transaction come from other key groups. A
key group evaluates the own aggregate and the aggregate conditions of such a rule, and returns a pending alert, with the
mark of its cool-down. It also returns the outcomes of the rules that are named (`named_outcomes`). The driver concludes
the pending alerts in arrival order, when all key groups have answered. It returns the changed marks. They are part of
the batch, and the key groups get them with a later one, before they read the marks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec import Raw

from fraud_rules.engine.named_outcomes import NamedOutcome, Place, outcomes_at
from fraud_rules.model.documents.alerts import ConditionDocument
from fraud_rules.model.output import (
    AlertRecord,
    DuplicateRecord,
    KeyGroupOutput,
    LateRecord,
    MarkUpdate,
    PendingAlert,
)
from fraud_rules.model.rule import NamedRule, Rule
from fraud_rules.model.ruleset import RuleInForce, RuleSet, RuleTimeline

_members_of: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_conditions_of: Final = msgspec.json.Decoder(list[ConditionDocument]).decode
_encode: Final = msgspec.json.Encoder().encode
_TRANSACTION: Final = "triggeringEvent"
_BEFORE: Final = b',"triggeringEvent":'


def place_of(each: AlertRecord | LateRecord | DuplicateRecord) -> Place:
    """What identifies a delivery of a transaction. Its order is the arrival order within a batch."""
    return each.append_ms, each.partition, each.offset


def conclude(
    outputs: Sequence[KeyGroupOutput],
    timeline: RuleTimeline,
    order: Callable[[AlertRecord], tuple[int, ...]] = place_of,
) -> tuple[Sequence[KeyGroupOutput], list[MarkUpdate]]:
    """Conclude the pending alerts in the parts of all key groups of a batch.

    Returns the parts with the concluded alerts instead of the pending ones, and the marks that these have changed.
    `timeline` is the rule log up to the pin, and `order` that of the rows: in a stream, the arrival order.
    """
    pending = [(each, output.key_group) for output in outputs for each in output.pending]
    if not pending:
        return outputs, []
    pending.sort(key=lambda each: (*order(each[0].alert), each[0].alert.rule_id, each[0].alert.role))
    counts = timeline.rule_counts(np.array([each.entries for each, _ in pending], dtype=np.int64))
    conclusion = _Conclusion(outputs, {place_of(each.alert) for each, _ in pending})
    for (each, key_group), count in zip(pending, counts.tolist(), strict=True):
        conclusion.add(each, key_group, timeline.rule_set(count))
    return [conclusion.concluded(output) for output in outputs], list(conclusion.marks.values())


class _Conclusion:
    """`marks` has the changed marks by rule incarnation, epoch and key."""

    def __init__(self, outputs: Sequence[KeyGroupOutput], places: set[Place]) -> None:
        self._outcomes: dict[tuple[Place, int], list[NamedOutcome]] = {}
        unjudged: list[LateRecord | DuplicateRecord] = []
        for output in outputs:
            unjudged += [*output.late, *output.duplicates]
        for outcome in outcomes_at((block for output in outputs for block in output.outcomes), places):
            self._outcomes.setdefault((outcome.place, outcome.rule_id), []).append(outcome)
        self._unjudged = {(place, each.grouping) for each in unjudged if (place := place_of(each)) in places}
        self._alerts: dict[int, list[AlertRecord]] = {}
        self._evaluations: dict[int, list[bytes]] = {}
        self.marks: dict[tuple[object, ...], MarkUpdate] = {}

    def concluded(self, output: KeyGroupOutput) -> KeyGroupOutput:
        """A key group's part of the batch, with its concluded alerts."""
        return msgspec.structs.replace(
            output,
            alerts=[*output.alerts, *self._alerts.get(output.key_group, ())],
            evaluations=[*output.evaluations, *self._evaluations.get(output.key_group, ())],
            pending=[],
            outcomes=[],
        )

    def add(self, pending: PendingAlert, key_group: int, rules: RuleSet) -> None:
        """Conclude an alert. The payment is not evaluated if it is late or a duplicate in the other grouping of a named
        rule, with an entity in one of its rows there."""
        alert = pending.alert
        place, in_force = place_of(alert), rules.rules[alert.rule_id]
        rule = in_force.rule
        named = {rule_id: rules.rules[rule_id] for rule_id in rule.named_rules}
        others = {each.rule.grouping for each in named.values()} - {rule.grouping}
        if any((place, "&".join(grouping)) in self._unjudged for grouping in others):
            return
        outcomes = {rule_id: self._outcome(alert, rule, each) for rule_id, each in named.items()}
        holding = pending.holding + sum(each is not None and each.holds for each in outcomes.values())
        if holding >= rule.required if rule.required else holding == 0:
            self._hold(pending, key_group, rule, holding, outcomes, named)
        else:
            self._evaluated(pending, key_group, "no")

    def _outcome(self, alert: AlertRecord, rule: Rule, named: RuleInForce) -> NamedOutcome | None:
        """The outcome of a named rule. One in SHADOW has an outcome for rules in SHADOW only.

        In the same grouping, it is that of the same row. The payment can have several rows in another grouping: then
        the outcome is that of the first row for which the rule holds, else of the first that it evaluated.
        """
        if named.rule.shadow and not rule.shadow:
            return None
        found = self._outcomes.get((place_of(alert), named.rule.rule_id), [])
        if named.rule.grouping == rule.grouping:
            found = [each for each in found if each.role == alert.role]
        return min(found, key=lambda each: (not each.holds, each.role), default=None)

    def _hold(
        self,
        pending: PendingAlert,
        key_group: int,
        rule: Rule,
        holding: int,
        outcomes: Mapping[int, NamedOutcome | None],
        named: Mapping[int, RuleInForce],
    ) -> None:
        """Alert or suppress, as the kernel does for other rules. `holding` conditions hold."""
        alert, key = pending.alert, (pending.incarnation, pending.epoch, *pending.key)
        mark = self.marks.get(key)
        last_ms, suppressed = (pending.last_ms, pending.suppressed) if mark is None else (mark.last_ms, mark.suppressed)
        is_cooling = (
            rule.cooldown_ms is not None and last_ms is not None and alert.event_ms < last_ms + rule.cooldown_ms
        )
        if not rule.alerts:
            self._evaluated(pending, key_group, "signal")
            return
        if is_cooling:
            self._evaluated(pending, key_group, "suppressed")
            suppressed += 1
        else:
            self._evaluated(pending, key_group, "alert")
            members = _members_of(alert.json)
            if not rule.has_aggregate:
                members["triggeringValue"] = Raw(_encode(str(holding)))
                members["windowCount"] = Raw(b"0")
            if not all(each is None or each.complete for each in outcomes.values()):
                members["windowComplete"] = Raw(b"false")
            members["suppressed"] = Raw(_encode(suppressed))
            members["conditions"] = Raw(_encode(_conditions(rule, members, outcomes, named)))
            self._alerts.setdefault(key_group, []).append(_with_members(alert, members))
            suppressed, last_ms = 0, alert.event_ms if last_ms is None else max(last_ms, alert.event_ms)
        self.marks[key] = MarkUpdate(
            key_group, rule.grouping, pending.epoch, pending.incarnation, pending.key, last_ms, suppressed
        )

    def _evaluated(self, pending: PendingAlert, key_group: int, outcome: str) -> None:
        if pending.evaluation is not None:
            members = _members_of(pending.evaluation)
            members["outcome"] = Raw(_encode(outcome))
            self._evaluations.setdefault(key_group, []).append(_encode(members))


def _conditions(
    rule: Rule,
    members: Mapping[str, Raw],
    outcomes: Mapping[int, NamedOutcome | None],
    named: Mapping[int, RuleInForce],
) -> list[ConditionDocument]:
    """All conditions in order: those of the pending alert, which are aggregates, and those that name rules."""
    aggregates = iter(_conditions_of(members["conditions"]) if "conditions" in members else ())
    found = []
    for each in rule.conditions:
        if isinstance(each, NamedRule):
            outcome = outcomes[each.rule_id]
            found.append(
                ConditionDocument(
                    value=None if outcome is None else outcome.value(named[each.rule_id].rule),
                    count=None if outcome is None else outcome.row_count,
                    holds=outcome is not None and outcome.holds,
                    rule_id=each.rule_id,
                    rule_version=named[each.rule_id].version,
                )
            )
        else:
            found.append(next(aggregates))
    return found


def _with_members(alert: AlertRecord, members: dict[str, Raw]) -> AlertRecord:
    """An alert with other members. The transaction stays as it is, at another place of the JSON."""
    transaction = alert.json[alert.transaction_at : alert.transaction_end]
    before = _encode({name: value for name, value in members.items() if name != _TRANSACTION})
    start = len(before) - 1 + len(_BEFORE)
    text = b"".join([before[:-1], _BEFORE, transaction, b"}"])
    return msgspec.structs.replace(alert, json=text, transaction_at=start, transaction_end=start + len(transaction))
