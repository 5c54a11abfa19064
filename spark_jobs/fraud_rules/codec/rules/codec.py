"""Decodes records of the rule log into changes of the rule set, and encodes rules.

The codec accepts the JSON of the Flink fraud-detection demo, with the extensions of this product, and the demo's text
form. A rejection lists every reason, by member. Members with the value null count as absent. Unknown members are
errors, so that a misspelt `cooldownSecond` causes a rejection.

A record of any content costs at most a few milliseconds, because sizes are checked first.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from fraud_rules.codec.rules.baseline import read_baseline
from fraud_rules.codec.rules.collections.plan import read_change
from fraud_rules.codec.rules.collections.records import kind_of_record
from fraud_rules.codec.rules.conditions import NO_AGGREGATE, read_conditions, read_own_aggregate
from fraud_rules.codec.rules.json import DecodedObject, decode_object, faults_of
from fraud_rules.codec.rules.members import MemberReader
from fraud_rules.codec.rules.numbers import readable_id, with_whole_numbers
from fraud_rules.codec.rules.text import read_text_form
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.limits import LoggedRuleLimits, RuleLimits
from fraud_rules.model.log_entry import LogEntry, RecordOutcome
from fraud_rules.model.rule import Control, ControlType, LogChange, Rule, RuleChange, RuleDeletion, RuleState
from fraud_rules.model.schema import TransactionSchema

__all__ = ["RuleLimits", "encode_document", "parse_rule_document", "parse_rule_record", "read_entry", "read_outcome"]

_STATES = {state: state for state in (*RuleState, "DELETE", "CONTROL")}
_CONTROLS = {control.value: control for control in ControlType}
_logged = lru_cache(LoggedRuleLimits.of)
_ENCODER = msgspec.json.Encoder(decimal_format="number")


def parse_rule_record(value: bytes | None, schema: TransactionSchema, limits: RuleLimits) -> LogChange:
    """Decode a record into its change. Raises `RuleRejected`, and no other error, for an invalid record."""
    if value is None or not value.strip():
        raise RuleRejected([Reason("record", "is empty; to delete a rule, write it with ruleState DELETE")])
    kind = kind_of_record(value)
    if kind is not None:
        return read_change(kind, value, limits)
    if len(value) > limits.max_record_bytes:
        problem = f"has {len(value)} bytes, at most {limits.max_record_bytes} are allowed"
        raise RuleRejected([Reason("record", problem)])
    try:
        text = value.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise RuleRejected([Reason("record", f"is not UTF-8 at byte {error.start + 1}")]) from error
    if text.startswith("{"):
        return _change(decode_object(text, limits), schema, limits)
    return parse_rule_document(read_text_form(text), schema, limits)


def parse_rule_document(document: Mapping[str, object], schema: TransactionSchema, limits: RuleLimits) -> RuleChange:
    """Convert a decoded record, whose numbers are `int` or `Decimal`, into its change. Raises `RuleRejected`."""
    members = dict(document)
    return _change(DecodedObject(members, faults_of(members, limits)), schema, limits)


def read_entry(
    version: int, append_ms: int, value: bytes | None, schema: TransactionSchema, limits: RuleLimits
) -> LogEntry:
    """Build the log entry of a record at offset `version`: accepted, or rejected with its reasons. Never raises."""
    return LogEntry(version, append_ms, append_ms, read_outcome(value, schema, limits))


def read_outcome(value: bytes | None, schema: TransactionSchema, limits: RuleLimits) -> RecordOutcome:
    """Decode and validate a record of the log. Never raises. Its conditions may have old forms."""
    try:
        return RecordOutcome(parse_rule_record(value, schema, _logged(limits)))
    except RuleRejected as rejected:
        return RecordOutcome(None, tuple(rejected.reasons), rejected.rule_id, rejected.list_name, rejected.map_name)


def encode_document(document: Mapping[str, object]) -> bytes:
    """Encode a rule's document as compact JSON, with decimals as exact JSON numbers."""
    return _ENCODER.encode(document)


def _change(decoded: DecodedObject, schema: TransactionSchema, limits: RuleLimits) -> RuleChange:
    given = {name: value for name, value in decoded.members.items() if value is not None}
    document = with_whole_numbers(given)
    reader = MemberReader(document, schema, limits, decoded.reasons)
    change = _read(reader, document)
    if change is None or reader.reasons:
        raise RuleRejected(reader.reasons, readable_id(document))
    return change


def _read(reader: MemberReader, document: Mapping[str, object]) -> RuleChange | None:
    """Read the change, or return None for an invalid record.

    `disabled` overrides the state. A record with an unusable state is read as a rule, so that its other members are
    checked too.
    """
    reader.reject_unknown()
    if reader.flag("disabled"):
        return _read_deletion(reader)
    state = reader.choice("ruleState", _STATES, required=True)
    if state == "DELETE":
        return _read_deletion(reader)
    if state == "CONTROL":
        control = reader.choice("controlType", _CONTROLS, required=True)
        return None if control is None else Control(ControlType(control))
    return _read_rule(reader, None if state is None else RuleState(state), document)


def _read_deletion(reader: MemberReader) -> RuleDeletion | None:
    rule_id = reader.rule_id()
    return None if rule_id is None else RuleDeletion(rule_id)


def _read_rule(reader: MemberReader, state: RuleState | None, document: Mapping[str, object]) -> Rule | None:
    rule_id, grouping = reader.rule_id(), reader.grouping()
    own, cooldown_ms = read_own_aggregate(reader), reader.cooldown_ms()
    function, operator, limit, window = own.function, own.operator, own.limit, own.window
    action, row_filter, when = reader.action(), reader.filter(), reader.when()
    source, force, weight = reader.source(), reader.flag("force"), reader.weight()
    baseline = read_baseline(reader, function, operator, limit, window)
    conditions, required = read_conditions(reader, rule_id, own)
    rollout, warm_up = reader.rollout(rule_id, grouping), reader.flag("warmUp")
    reader.check_remarks()
    if rule_id is None or state is None or grouping is None or function is None:
        return None
    if operator is None or limit is None or window is None:
        return None
    rule = Rule(
        rule_id=rule_id,
        state=state,
        grouping=grouping,
        aggregate_function=function,
        aggregate_field=own.field,
        unique=own.unique,
        operator=operator,
        limit=limit,
        window=window,
        cooldown_ms=cooldown_ms,
        action=action,
        filter=row_filter,
        when=when,
        baseline=baseline,
        conditions=conditions,
        required=required,
        has_aggregate=own is not NO_AGGREGATE,
        rollout=rollout,
        roles=reader.roles(grouping),
        source=source,
        force=force,
        weight=weight,
        warm_up=warm_up,
        detail_ms=reader.detail_ms if window.is_long else 0,
        document=document,
    )
    _check_previous(reader, rule)
    reader.check_steps(function, window, rule.whole_window.reach_ms)
    return rule


def _check_previous(reader: MemberReader, rule: Rule) -> None:
    """Check that a rule that reads the previous payment has a window in which to find it."""
    for member, expression in () if rule.has_aggregate and not rule.window.is_long else rule.judged_once:
        if expression.previous_fields:
            reader.reject(
                member, "reads the previous payment, which needs a window of the rule's own, without resolutionSeconds"
            )
