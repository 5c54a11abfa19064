"""The value of an expression for a sample payment, as the rule editor shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.read_models import SampleValue
from fraud_control.domain.rule_input import RuleReader
from fraud_control.feed.memory import FeedMemory
from fraud_control.service.rules.sample_value import ExpressionMember, Sample, sample_value
from fraud_control.service.store_access import StoreAccess
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.value_list import ListOperation, ListType
from fraud_rules.model.value_map import MapType, MapValueType
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.scene import ANN, Scene
from tests.support.rules import LIMITS

SCHEMA = TransactionSchema.parse(
    {
        "fields": [
            {"name": "transactionId", "type": "string"},
            {"name": "eventTime", "type": "timestamp", "path": "at", "unit": "s"},
            {"name": "payeeId", "type": "long", "aliases": ["payerId"]},
            {"name": "country", "type": "string", "nullable": True, "values": ["DE", "FR"]},
            {"name": "present", "type": "boolean", "nullable": True},
            {"name": "amount", "type": "decimal", "precision": 4, "scale": 2, "scaled": True},
        ],
        "unwrap": "debezium",
        "entities": [{"name": "word", "roles": {"id": "transactionId", "land": "country"}}],
    }
)
PAYMENT: dict[str, Any] = {"transactionId": "t1", "eventTime": 1_700_000_000_000, "payeeId": 7, "amount": "12.50"}


def sampled(
    scene: Scene,
    member: ExpressionMember,
    text: str,
    payment: str | None = json.dumps(PAYMENT),
    newest: str | None = None,
    previous: str | None = None,
) -> SampleValue:
    """The value for a payment whose records have other units, places and an envelope."""
    store = StoreAccess(scene.database, scene.settings, RuleReader(SCHEMA, LIMITS), scene.clock)
    with store.reading() as work:
        return sample_value(work, member, text, Sample(payment, previous), newest)


@pytest.mark.parametrize(
    ("member", "text", "value"),
    [
        ("filter", "amount * 2 = 25 and payerId in (7, 8)", "true"),
        ("filter", "hour(eventTime, 'Europe/Berlin') = 22", "false"),
        ("filter", "country = 'DE'", None),
        ("filter", "country is null and not present is not null", "true"),
        ("filter", "", None),
        ("when", "present", None),
        ("when", "transactionId like 't_'", "true"),
        ("filter", "role = 'id'", "id: true, land: false"),
        ("limit", "amount * 2", "25"),
        ("limit", "amount * length(role)", "id: 25, land: 50"),
        ("limit", "amount / 7", "1.785714"),
        ("limit", "amount / (payeeId - 7)", None),
        ("limit", "-amount", "-12.5"),
        ("limit", "20.10", "20.10"),
    ],
)
def test_a_condition_has_a_truth_value_and_a_limit_a_number(
    scene: Scene, member: ExpressionMember, text: str, value: str | None
) -> None:
    found = sampled(scene, member, text)
    assert (found.value, found.reasons) == (value, [])


@pytest.mark.parametrize(
    ("member", "text", "payment", "field", "message"),
    [
        ("filter", "amout > 3", PAYMENT, "filter", "did you mean amount?"),
        ("filter", "payeeId in list('mules')", PAYMENT, "filter", "lists are allowed in when"),
        ("filter", "amount >", PAYMENT, "filter", "is incomplete"),
        ("when", " ", PAYMENT, "when", "is empty"),
        ("limit", "country", PAYMENT, "limit", "country"),
        ("limit", "", PAYMENT, "limit", "must be a decimal number or an expression"),
        ("when", "payeeId in list('mules')", PAYMENT, "when", "there is no list 'mules'"),
        ("filter", "amount > 3", {**PAYMENT, "amount": "1000"}, "payment", "does_not_fit:amount"),
        ("filter", "amount > 3", {"payeeId": 1}, "payment", "missing_field:"),
        ("filter", "amount > 3", [], "payment", "not_an_object"),
    ],
)
def test_a_text_or_a_payment_that_is_not_valid_has_reasons(
    scene: Scene, member: ExpressionMember, text: str, payment: object, field: str, message: str
) -> None:
    found = sampled(scene, member, text, json.dumps(payment))
    assert found.value is None
    assert [reason.field for reason in found.reasons] == [field]
    assert message in found.reasons[0].message


def test_the_previous_payment_is_null_unless_it_is_chosen(scene: Scene) -> None:
    text = "coalesce(eventTime - previous(eventTime), -1)"
    assert sampled(scene, "limit", text).value == "-1"
    before = json.dumps({**PAYMENT, "eventTime": PAYMENT["eventTime"] - 1_500, "country": "DE"})
    assert sampled(scene, "limit", text, previous=before).value == "1.5"
    assert sampled(scene, "when", "previous(country) = 'DE' and country is null", previous=before).value == "true"
    assert sampled(scene, "when", "previous(country) = 'DE'").value is None
    (reason,) = sampled(scene, "limit", text, previous="{}").reasons
    assert (reason.field, reason.message[:13]) == ("previous", "missing_field")
    assert sampled(scene, "limit", "amount", previous="{}").value == "12.5", "no expression reads it"


def test_a_list_has_the_values_that_are_in_force(scene: Scene, log: MemoryLog) -> None:
    text = "payeeId in list('mules')"
    scene.service.lists.create(ANN, "mules", CollectionInput(ListOperation.SET, ("7",), type=ListType.LONG), "first")
    assert sampled(scene, "when", text).reasons, "the detector does not know the list yet"
    log.mirror_outbox()
    assert sampled(scene, "when", text).value == "true"
    wrong = sampled(scene, "when", "country in list('mules')")
    assert "the list 'mules' has long values" in wrong.reasons[0].message


def test_a_map_has_the_entries_that_are_in_force(scene: Scene, log: MemoryLog) -> None:
    text = "coalesce(map('limits', payeeId), 1)"
    numbers = MapType(ListType.LONG, MapValueType.DECIMAL)
    given = CollectionInput(ListOperation.SET, type=numbers, entries=(("7", "250.5"),))
    scene.service.maps.create(ANN, "limits", given, "first")
    assert "there is no map 'limits'" in sampled(scene, "limit", text).reasons[0].message
    log.mirror_outbox()
    assert sampled(scene, "limit", text).value == "250.5"


def test_the_default_payment_is_the_newest_one_or_has_a_value_for_each_field(scene: Scene) -> None:
    newest = json.dumps(PAYMENT, indent=2)
    assert sampled(scene, "limit", "amount", None, newest) == SampleValue(value="12.5", reasons=[], payment=newest)
    found = sampled(scene, "limit", "amount", None)
    assert (found.value, found.reasons) == ("99", [])
    assert json.loads(found.payment) == {
        "transactionId": "text",
        "eventTime": scene.clock.now_ms,
        "payeeId": 100,
        "country": "DE",
        "present": True,
        "amount": 99,
    }


def test_the_newest_payment_is_that_of_the_newest_alert_with_all_its_digits() -> None:
    memory = FeedMemory()
    assert memory.newest_payment() is None
    for number in (1, 2):
        memory.add(alert(number, triggeringEvent={"transactionId": number, "amount": 12.5, "big": 2**62 + 1}))
    assert memory.newest_payment() == '{\n  "transactionId": 2,\n  "amount": 12.5,\n  "big": 4611686018427387905\n}'
