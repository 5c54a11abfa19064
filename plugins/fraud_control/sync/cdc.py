"""The CDC intake: applies the changes of an external rule table, in Debezium's format, to the store and the outbox.

A record is a Debezium envelope (`before`, `after`, `op`), alone or under `payload`. A row has the members of a rule as
columns, named as in the rule log or in snake_case (`grouping_key_names`); further columns do not count. A list may be a
JSON text or names joined by `&`, and a baseline or conditions may be a JSON text. The schema of the envelope names the
decimals in Base64. A long text that an update did not change arrives as a placeholder, and the rule keeps its text. A
deleted row, or a row whose `disabled` is true, deletes its rule. The intake validates each row like any rule. A
rejected row changes nothing, and the audit log records the reasons. The intake changes only rules whose `source` is
`cdc`, but recreates deleted rules of any source. An edit in the control plane sets another source, and from then on the
table cannot change the rule.

A row with the column `list_name` or `map_name` belongs to a table of list values or map entries (`collection_cdc`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import Any, Final

from fraud_control.domain.canonical import decoded, document_of
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleChanged
from fraud_control.domain.roles import system_author
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.items.kind import NewRevision
from fraud_control.service.items.saving import save
from fraud_control.service.rules import content as rules
from fraud_control.service.rules.content import RuleContent, same
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.models import ItemHead
from fraud_control.sync.collection_cdc import TableRow, apply_collection_rows, is_collection_row
from fraud_control.sync.table_columns import UNCHANGED, decimal_scales, members_in, plain_name, with_decimals
from fraud_control.sync.topic_consumer import ConsumedTopic, TopicConsumer
from fraud_rules.codec.rules.codec import encode_document, parse_rule_document
from fraud_rules.codec.rules.members import MEMBERS
from fraud_rules.codec.rules.numbers import WHOLE_NUMBERS, readable_id
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.kafka.reader import Record
from fraud_rules.model.rule import Control, Rule, RuleChange, RuleDeletion
from fraud_rules.model.rule_names import in_writing_order

NAME: Final = "cdc"
SOURCE: Final = "cdc"

_AUTHOR: Final = system_author(NAME)

_MAX_BYTES: Final = 262_144
_LISTS: Final = frozenset({"groupingKeyNames", "unique"})
_NESTED: Final = frozenset({"baseline", "conditions"})
_FLAGS: Final = frozenset({"disabled", "force", "warmUp"})
_UPSERTS: Final = ("c", "r", "u")
_EMPTY_MEANS_ABSENT: Final = frozenset(
    {
        "groupingKeyNames",
        "windowSeconds",
        "windowMinutes",
        "windowCalendar",
        "zone",
        "resolutionSeconds",
        "cooldownSeconds",
        "weight",
        "filter",
        "when",
        "baseline",
        "conditions",
        "require",
        "rolloutPercent",
        "action",
        "controlType",
    }
)


def cdc_intake(
    store: StoreAccess,
    kafka: KafkaConnection,
    topic: str,
    report: Callable[[RuleChanged], None] = lambda changed: None,
) -> TopicConsumer:
    """Create the consumer that applies the table's topic to the store. `report` gets the changes after the commit."""
    return TopicConsumer(store, ConsumedTopic(kafka, topic, NAME), apply_record, report, apply_records, in_rule_order)


def members_of(value: bytes) -> Mapping[str, Any] | None:
    """Convert a change of the table into a rule document; None for a message without a row (`op` is m).

    Raises RuleRejected for a record that is not a change of a rule table.
    """
    change = _table_change(value)
    if change is None:
        return None
    _, before, after = change
    if after is not None:
        return _document(after)
    ids = {column: value for column, value in (before or {}).items() if plain_name(column) == "ruleid"}
    return _document(ids | {"disabled": True})


def _table_change(value: bytes) -> tuple[str, dict[str, Any] | None, dict[str, Any] | None] | None:
    """The operation of a change, with the rows before and after; None for a message without a row (`op` is m).

    Raises RuleRejected for a record that is not a change of a table.
    """
    if len(value) > _MAX_BYTES:
        raise RuleRejected([Reason("record", f"has {len(value)} bytes, at most {_MAX_BYTES} are allowed")])
    try:
        envelope = decoded(value)
    except UNDECODABLE as error:
        raise RuleRejected([Reason("record", "is not JSON")]) from error
    change = envelope.get("payload", envelope) if isinstance(envelope, dict) else None
    if not isinstance(change, dict) or not {"op", "after", "before"} & change.keys():
        raise RuleRejected([Reason("record", "is not a Debezium envelope (op, before, after)")])
    scales = decimal_scales(envelope.get("schema"))
    op, after, before = change.get("op"), *(_row(change.get(name), scales) for name in ("after", "before"))
    if op in _UPSERTS and after is not None:
        return op, before, after
    if op == "d" and before is not None:
        return op, before, None
    if op == "m":
        return None
    raise RuleRejected([Reason("op", "must be c, r, u (with after), d (with before) or m")])


def _row(row: object, scales: Mapping[str, int]) -> dict[str, Any] | None:
    return with_decimals(row, scales) if isinstance(row, dict) else None


def apply_record(work: UnitOfWork, record: Record) -> None:
    """Apply one change of the table. Raises RuleRejected for a record that cannot be applied."""
    apply_records(work, [record])


def apply_records(work: UnitOfWork, records: Sequence[Record]) -> None:
    """Apply changes of the table in order, consecutive rows of lists and maps together. Raises RuleRejected."""
    for is_listed, run in groupby(
        ((_collection_row(record), record) for record in records), lambda each: each[0] is not None
    ):
        if is_listed:
            apply_collection_rows(work, [row for row, _ in run if row is not None], SOURCE)
        else:
            for _, record in run:
                _apply_rule_row(work, record)


def in_rule_order(work: UnitOfWork, records: Sequence[Record]) -> Sequence[Record]:
    """Records that were read together, in the order in which the rule log accepts their rules."""
    naming = work.names.by_rule(StateName.ACTIVE)
    if not naming and not any(b"conditions" in (record.value or b"") for record in records):
        return records
    return in_writing_order(records, partial(_readable_change, work), naming)


def _readable_change(work: UnitOfWork, record: Record) -> RuleChange | None:
    """The change of a rule in a record; None if there is none, or if the record is rejected later."""
    try:
        return None if _collection_row(record) is not None else _rule_change(work, record)
    except (RuleRejected, *UNDECODABLE):
        return None


def _rule_change(work: UnitOfWork, record: Record) -> RuleChange | None:
    # Debezium writes a tombstone after a deletion, for the compaction of the topic.
    members = None if record.value is None else members_of(record.value)
    if members is None:
        return None
    members = {**_with_unchanged(work, members), "source": SOURCE}
    change = parse_rule_document(members, work.reader.schema, work.reader.limits)
    return change if isinstance(change, Rule | RuleDeletion | Control) else None


def _apply_rule_row(work: UnitOfWork, record: Record) -> None:
    match _rule_change(work, record):
        case Rule() as rule:
            _save_rule(work, record, rule)
        case RuleDeletion(rule_id):
            _delete_rule(work, record, rule_id)
        case Control():
            raise RuleRejected([Reason("controlType", "a table has no controls")])


def _collection_row(record: Record) -> TableRow | None:
    """The change of a table of list values or map entries; None for any other record. Raises RuleRejected."""
    found = None if record.value is None else _table_change(record.value)
    if found is None or not is_collection_row(found[2] or found[1]):
        return None
    return TableRow(found[1], found[2], record.offset)


def _save_rule(work: UnitOfWork, record: Record, rule: Rule) -> None:
    head = work.head(ItemName.of_rule(rule.rule_id))
    _check_source(head, rule.rule_id)
    state, document = StateName(rule.state.value), encode_document(rule.document).decode()
    if head is not None and head.state == state.value and same(head.document, document):
        return
    work.names.check(rule, state)
    save(work, rules, head, _revision(record, RuleContent(rule.rule_id, state, document)))


def _delete_rule(work: UnitOfWork, record: Record, rule_id: int) -> None:
    head = work.head(ItemName.of_rule(rule_id))
    if head is None or head.deleted:
        return
    _check_source(head, rule_id)
    work.names.check_state(rule_id, StateName.DELETE, head.document)
    save(work, rules, head, _revision(record, RuleContent(rule_id, StateName.DELETE, head.document)))


def _revision(record: Record, changed: RuleContent) -> NewRevision[RuleContent]:
    comment, detail = "from the rule table", {"offset": record.offset}
    return NewRevision(changed, _AUTHOR, "cdc.rule", comment, source=SOURCE, detail=detail)


def _check_source(head: ItemHead | None, rule_id: int) -> None:
    """Raise RuleRejected if the rule comes from another source: the table may not change that rule."""
    if head is not None and head.source != SOURCE and not head.deleted:
        raise RuleRejected([Reason("ruleId", f"belongs to {head.source}")], rule_id)


def _with_unchanged(work: UnitOfWork, members: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the placeholders of unchanged texts by the texts of the rule. Raises RuleRejected without such a rule."""
    unchanged = [name for name, value in members.items() if value == UNCHANGED]
    rule_id = readable_id(members)
    head = work.head(ItemName.of_rule(rule_id)) if unchanged and rule_id is not None else None
    if unchanged and (head is None or head.source != SOURCE):
        raise RuleRejected(
            [Reason(name, "is missing: the table sent a placeholder for it") for name in unchanged], rule_id
        )
    known = {} if head is None else document_of(head.document)
    kept = {name: known[name] for name in unchanged if name in known}
    return {name: value for name, value in members.items() if name not in unchanged} | kept


def _document(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the columns of a row into members of a rule. Omit empty texts in the members of `_EMPTY_MEANS_ABSENT`."""
    return {
        name: _value(name, value)
        for name, value in members_in(row, MEMBERS).items()
        if not (value == "" and name in _EMPTY_MEANS_ABSENT)
    }


def _value(name: str, value: Any) -> Any:
    if name in _LISTS and isinstance(value, str):
        return _listed(value)
    if name in _NESTED and isinstance(value, str):
        return _decoded(value)
    if name in _FLAGS and type(value) is int and value in (0, 1):
        return bool(value)  # some databases store booleans as 0 and 1
    if name in WHOLE_NUMBERS and isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)  # a connector that sends doubles sends 60.0
    return value


def _decoded(text: str) -> Any:
    """The value of a JSON text. Another text stays unchanged, so that the rule is rejected with a reason."""
    try:
        return decoded(text)
    except UNDECODABLE:
        return text


def _listed(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            found = decoded(text)
        except UNDECODABLE:
            return [text]
        return found if isinstance(found, list) else [text]
    return [name.strip() for name in re.split("[&,]", text) if name.strip()]
