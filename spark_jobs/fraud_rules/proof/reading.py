"""Reads a proof for the plain evaluator: bytes to values with the codec, and records to the rows of the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Final

import msgspec
import yaml

from fraud_rules.codec.rules.codec import parse_rule_record
from fraud_rules.codec.text_form import normalized
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.errors import ConfigError, ProofInvalid, RuleRejected
from fraud_rules.model.limits import UNBOUNDED, RecordLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import ID_FIELD, ROLE, TIME_FIELD, FieldType, TransactionSchema
from fraud_rules.model.value_list import ListChange, ListOperation
from fraud_rules.model.value_map import MAP_SCALE, MapChange
from fraud_rules.proof.document import Proof, ProvedPayment
from fraud_rules.proof.plain.expressions import PlainField
from fraud_rules.proof.plain.judging import ARRIVAL, Scene
from fraud_rules.proof.plain.rows import SECOND_DELIVERY, Boundary, PlacedRow, remarks

_KINDS: Final = {
    FieldType.LONG: "number",
    FieldType.DECIMAL: "number",
    FieldType.STRING: "text",
    FieldType.TIMESTAMP: "time",
    FieldType.BOOLEAN: "boolean",
}
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


@dataclass(frozen=True)
class PaymentScene:
    """The payment of a proof: the rule as its record says it, the plain scene, and what is only stated.

    `rows` are all rows of the key in the order of evaluation, each with its partition and offset as text, and the
    remark why the payment cannot count it.
    """

    alert: Mapping[str, Any]
    rule: Mapping[str, Any]
    version: int
    grouping: Sequence[str]
    fields: Sequence[str]
    role: str | None
    append_ms: int
    plain: Scene
    rows: Sequence[tuple[str, PlacedRow, str]]
    remark: str
    list_versions: Mapping[str, int]
    map_versions: Mapping[str, int]
    earlier_alerts: Sequence[Mapping[str, Any]]
    restrictions: Sequence[Mapping[str, Any]]
    history_start_ms: int | None
    stated: Sequence[str]
    is_recomputable: bool


def read_scene(proof: Proof, named: Mapping[int, Mapping[str, Any]] | None = None) -> PaymentScene:
    """Read the records of a proof. Without `named`, the outcomes of other rules are those that the alert states.

    Raises ProofInvalid.
    """
    statement = proof.statement
    alert = _object(proof.alert, "alert.json")
    try:
        schema = TransactionSchema.parse(yaml.safe_load(proof.schema), "schema.yaml")
    except (ConfigError, yaml.YAMLError) as error:
        raise ProofInvalid(f"schema.yaml is damaged: {error}") from error
    pins = {each.number: each.rules_end for each in proof.batches}
    pin, e = pins.get(statement.batch, 0), _payment_of(proof)
    seen = [each for each in proof.rules if each.offset < pin and each.time_ms <= e.append_ms]
    changes = {each.offset: _change(each.value.value, each.offset, schema) for each in seen}
    rule = _rule_in_force(changes, statement.rule_id, statement.rule_version)
    rows = _rows_of_key(proof, schema, rule, pins)
    last = next((i for i, row in enumerate(rows) if _is_of(row, e, statement.role)), None)
    if last is None:
        raise ProofInvalid(f"payment {e.partition}-{e.offset} has no row of the key {_key_of(rule, alert)}")
    placed = [row.placed for row in rows[: last + 1]]
    said = remarks(placed, statement.boundaries)
    countable = [
        {**x.values, ARRIVAL: i}
        for i, (x, remark) in enumerate(zip(placed, said, strict=True))
        if not remark or i == last
    ]
    earlier = [_object(bytes(each), "an earlier alert") for each in statement.earlier_alerts]
    earlier = [
        each
        for each in earlier
        if each["ruleVersion"] >= statement.incarnation and _shares_epoch(each, rows, placed[-1], statement.boundaries)
    ]
    entity = schema.entity_of(rule.grouping)
    lists, maps = _collections(changes)
    if named is None:
        named = {each["ruleId"]: each for each in alert.get("conditions", ()) if "ruleId" in each}
    return PaymentScene(
        alert=alert,
        rule=rule.document,
        version=statement.rule_version,
        grouping=rule.grouping,
        fields=schema.names,
        role=statement.role,
        append_ms=e.append_ms,
        plain=Scene(
            rows=countable,
            key=[placed[-1].values[name] for name in rule.grouping],
            fields=_fields(schema, has_role=entity is not None),
            mark=_mark(earlier, rows[: last + 1], said),
            lookups={
                **{f"list:{name}": values for name, (_, values) in lists.items()},
                **{f"map:{name}": entries for name, (_, entries) in maps.items()},
            },
            named=named,
        ),
        rows=[(f"{row.place[0]}-{row.place[1]}", row.placed, said[i]) for i, row in enumerate(rows[: last + 1])],
        remark=said[-1],
        list_versions={name: lists[name][0] for name in sorted(rule.lists) if name in lists},
        map_versions={name: maps[name][0] for name in sorted(rule.maps) if name in maps},
        earlier_alerts=earlier,
        restrictions=[_object(bytes(each), "a restriction") for each in statement.restrictions],
        history_start_ms=statement.bounds.history_start,
        stated=[f"the outcome of rule {rule_id}" for rule_id in named],
        is_recomputable=not (statement.is_warm or rule.window.is_long),
    )


def cooling_alerts(scene: PaymentScene) -> list[Mapping[str, Any]]:
    """The earlier alerts whose cool-down has not ended at the payment. A rule without a cool-down has none."""
    if "cooldownSeconds" not in scene.rule:
        return []
    since_ms = scene.plain.at_ms - int(scene.rule["cooldownSeconds"]) * 1_000
    return [each for each in scene.earlier_alerts if each["eventTime"] > since_ms]


@dataclass(frozen=True, slots=True)
class _KeyRow:
    """A row of the key with the place of its record."""

    place: tuple[int, int]
    placed: PlacedRow


def _payment_of(proof: Proof) -> ProvedPayment:
    place = proof.statement.partition, proof.statement.offset
    found = next((each for each in proof.payments if (each.partition, each.offset) == place), None)
    if found is None:
        raise ProofInvalid(f"payments.json has no payment {place[0]}-{place[1]}")
    return found


def _object(text: bytes, name: str) -> dict[str, Any]:
    try:
        found = _decode(text)
    except msgspec.DecodeError as error:
        raise ProofInvalid(f"{name} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise ProofInvalid(f"{name} is no JSON object")
    return found


def _change(value: bytes | None, offset: int, schema: TransactionSchema) -> Any:
    try:
        return parse_rule_record(value, schema, UNBOUNDED)
    except RuleRejected as error:
        raise ProofInvalid(f"rules, {offset}: {error}") from error


def _rule_in_force(changes: Mapping[int, Any], rule_id: int, version: int) -> Rule:
    """The rule's record, which must be the last one of the rule that the payment sees. Raises ProofInvalid."""
    found = [offset for offset, change in changes.items() if getattr(change, "rule_id", None) == rule_id]
    if not found or max(found) != version or not isinstance(changes[version], Rule):
        raise ProofInvalid(f"rules: the record {version} of rule {rule_id} was not in force for the payment")
    rule: Rule = changes[version]
    return rule


def _rows_of_key(proof: Proof, schema: TransactionSchema, rule: Rule, pins: Mapping[int, int]) -> list[_KeyRow]:
    """The rows of the payment's key, in the statement's order. Raises ProofInvalid for an unreadable payment."""
    statement = proof.statement
    of_place = {(each.partition, each.offset): each for each in proof.payments}
    entity = schema.entity_of(rule.grouping)
    found: list[tuple[tuple[int, ...], _KeyRow]] = []
    for place, values in _decoded(proof, schema):
        payment = of_place[place]
        roles = [(None, None)] if entity is None else entity.roles
        for number, (role, name) in enumerate(roles):
            if entity is not None and values[str(name)] is None:
                continue
            more = {} if entity is None else {entity.name: values[str(name)], ROLE: role}
            pin = pins.get(payment.batch, 0)
            placed = PlacedRow(payment.append_ms, pin, payment.retained_from, {**values, **more})
            arrival = payment.batch, payment.append_ms, *place, number
            at = arrival if statement.order == "arrival" else (values[TIME_FIELD], *arrival)
            found.append((at, _KeyRow(place, placed)))
    found.sort(key=lambda each: each[0])
    e = _payment_of(proof)
    own = next((row.placed.values for _, row in found if _is_of(row, e, statement.role)), None)
    if own is None:
        return []
    key = [own[name] for name in rule.grouping]
    return [row for _, row in found if [row.placed.values[name] for name in rule.grouping] == key]


def _is_of(row: _KeyRow, payment: ProvedPayment, role: str | None) -> bool:
    return row.place == (payment.partition, payment.offset) and row.placed.values.get(ROLE) == role


def _decoded(proof: Proof, schema: TransactionSchema) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """The values of each payment by field, None for null, with its place. Raises ProofInvalid."""
    settings = proof.statement.settings
    limits = RecordLimits(settings["futureToleranceMs"], settings["eventTimeFloorMs"], settings["maxTransactionBytes"])
    for is_archived, form in ((False, schema), (True, schema.plain)):
        payments = [each for each in proof.payments if each.archived == is_archived]
        if not payments:
            continue
        result = decode_transactions(_raw(payments, proof.statement.topic), form, limits)
        if result.rejects or result.ignored:
            at = payments[result.rejects[0].index] if result.rejects else payments[0]
            why = result.rejects[0].reason if result.rejects else "it is a tombstone"
            raise ProofInvalid(f"payment {at.partition}-{at.offset}: the detector does not accept it: {why}")
        places = zip(result.batch.partition.tolist(), result.batch.offset.tolist(), strict=True)
        for place, row in zip(places, result.batch.rows(range(len(result.batch)), schema), strict=True):
            yield place, {name: row.get(name) for name in schema.names}


def _raw(payments: Sequence[ProvedPayment], topic: str) -> RawTransactions:
    return RawTransactions.of(
        [each.value.value for each in payments],
        [each.partition for each in payments],
        [each.offset for each in payments],
        [each.append_ms for each in payments],
        topic,
        [None if each.key is None else each.key.value for each in payments],
        [[(name, text.value) for name, text in each.headers] for each in payments],
    )


def _fields(schema: TransactionSchema, *, has_role: bool) -> dict[str, PlainField]:
    found = {
        name: PlainField(each.name, _KINDS[each.type], partial(normalized, steps=each.normalize))
        for each in schema.fields
        for name in each.member_names
    }
    return {**found, ROLE: PlainField(ROLE, "text", str)} if has_role else found


def _collections(changes: Mapping[int, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The lists and maps with their versions, after the records in order."""
    lists: dict[str, tuple[int, frozenset[Any]]] = {}
    maps: dict[str, tuple[int, dict[Any, Any]]] = {}
    types: dict[str, Any] = {}
    for offset, change in sorted(changes.items()):
        if isinstance(change, ListChange):
            known, values = lists.get(change.name, (0, frozenset()))[1], frozenset(change.values())
            known = {ListOperation.SET: frozenset(), ListOperation.DELETE: frozenset()}.get(change.operation, known)
            lists[change.name] = offset, known - values if change.operation is ListOperation.REMOVE else known | values
        elif isinstance(change, MapChange):
            if change.operation is ListOperation.SET:
                types[change.name], maps[change.name] = change.type, (offset, {})
            entries = dict(maps[change.name][1])
            for key, value in change.updates(types[change.name]).items():
                entries.pop(key, None)
                if value is not None:
                    entries[key] = value if isinstance(value, str) else Fraction(value, 10**MAP_SCALE)
            maps[change.name] = offset, entries
    return lists, maps


def _shares_epoch(
    alert: Mapping[str, Any], rows: Sequence[_KeyRow], e: PlacedRow, boundaries: Sequence[Boundary]
) -> bool:
    """Whether no clear and no start of the grouping has ended the marks of an earlier alert."""
    begins = [each for each in boundaries if each.kind != "END"]
    newest = [each for each in begins if e.sees(each)][-1:]
    payment = next((row.placed for row in rows if _name_of(row) == _name_of_alert(alert)), None)
    if payment is not None:
        return [each for each in begins if payment.sees(each)][-1:] == newest
    return not newest or bool(newest[0].time_ms <= alert["ingestionTime"])


def _mark(earlier: Sequence[Mapping[str, Any]], rows: Sequence[_KeyRow], said: Sequence[str]) -> int:
    """The arrival of the last payment with an alert of the rule while it was COUNT_WITH_RESET; -1 without one."""
    names = {_name_of_alert(each) for each in earlier if _resets(each)}
    found = [i for i, row in enumerate(rows) if _name_of(row) in names and said[i] != SECOND_DELIVERY]
    return max(found, default=-1)


def _name_of(row: _KeyRow) -> tuple[Any, Any, int]:
    return row.placed.values[ID_FIELD], row.placed.values.get(ROLE), row.placed.append_ms


def _name_of_alert(alert: Mapping[str, Any]) -> tuple[Any, Any, int]:
    return alert["triggeringEvent"][ID_FIELD], alert.get(ROLE), alert["ingestionTime"]


def _resets(alert: Mapping[str, Any]) -> bool:
    rule = alert["violatedRule"]
    return "COUNT_WITH_RESET" in (
        rule.get("aggregatorFunctionType"),
        rule.get("aggregateFieldName", "").removesuffix("_FLINK"),
    )


def _key_of(rule: Rule, alert: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={alert.get('key', {}).get(name)}" for name in rule.grouping)
