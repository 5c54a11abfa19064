"""The CDC intake: the effect of changes in an external rule table."""

from __future__ import annotations

import json
from base64 import b64encode
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select

from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.lifecycle import StateName
from fraud_control.store.models import OutboxRow
from fraud_control.sync.cdc import cdc_intake, members_of
from fraud_rules.errors import RuleRejected
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record
from fraud_rules.model.value_list import ListOperation
from tests.support.control_plane.change_events import ROW, envelope
from tests.support.control_plane.hostile import HOSTILE
from tests.support.control_plane.scene import ANN, PAT, Scene, rule_input


def apply_record(scene: Scene, *values: bytes | None, start: int = 0) -> None:
    follower = cdc_intake(
        scene.store,
        KafkaConnection("nowhere:1"),
        "rules-cdc",
    )
    records = [Record(start + place, 1, b"key", value) for place, value in enumerate(values)]
    follower.apply_records(records, start + len(records))


def sent(scene: Scene) -> list[dict[str, Any]]:
    with scene.database.reading() as session:
        return [json.loads(row.value) for row in session.scalars(select(OutboxRow).order_by(OutboxRow.seq))]


def refusals(scene: Scene) -> list[Any]:
    rows = scene.service.audit_rows().items
    return [row.after["reasons"] for row in rows if row.action == "cdc.refused" and isinstance(row.after, dict)]


def test_rows_become_rules_change_and_end(scene: Scene) -> None:
    apply_record(scene, envelope("r", ROW), envelope("u", {**ROW, "limit": "30"}, ROW), envelope("d", None, ROW), None)
    assert [(each["ruleState"], each.get("limit")) for each in sent(scene)] == [
        ("ACTIVE", "20.50"), ("ACTIVE", "30"), ("DELETE", None),
    ]  # fmt: skip
    assert {each["source"] for each in sent(scene)} == {"cdc"}
    assert [each.state for each in scene.service.revisions(5).items] == [
        StateName.DELETE,
        StateName.ACTIVE,
        StateName.ACTIVE,
    ]
    assert scene.service.verify_audit().whole


@pytest.mark.parametrize("disabled", [True, 1])
def test_a_disabled_row_ends_its_rule_and_an_enabled_one_brings_it_back(scene: Scene, disabled: object) -> None:
    apply_record(scene, envelope("c", ROW), envelope("u", {**ROW, "disabled": disabled}))
    assert [each["ruleState"] for each in sent(scene)] == ["ACTIVE", "DELETE"]
    apply_record(scene, envelope("u", ROW), start=2)
    assert scene.service.rule(5).row.state is StateName.ACTIVE


@pytest.mark.parametrize("past", ['{"windowMinutes": 60, "minCount": 3}', {"windowMinutes": 60, "minCount": 3}])
def test_a_row_may_have_a_baseline_as_an_object_or_as_a_json_text(scene: Scene, past: object) -> None:
    row = {**ROW, "baseline": past, "when": "paymentAmount > 5", "weight": 70, "warm_up": 1}
    apply_record(scene, envelope("c", row))
    (rule,) = sent(scene)
    assert (rule["baseline"], rule["when"], rule["weight"], rule["warmUp"]) == (
        {"windowMinutes": 60, "minCount": 3},
        "paymentAmount > 5",
        70,
        True,
    )
    apply_record(scene, envelope("u", {**ROW, "baseline": "hour", "when": ""}), start=1)
    assert "baseline: must be an object" in str(refusals(scene))


def test_columns_of_the_table_itself_do_not_count_and_databases_may_change_the_case(scene: Scene) -> None:
    own = {"id": 1, "updated_at": 1_700_000_000_000_000, "created_by": "dba"}
    apply_record(scene, envelope("c", {**{name.upper(): value for name, value in ROW.items()}, **own}))
    apply_record(scene, envelope("c", {**listed(2), **own}), envelope("c", {"LIST_NAME": "mules", "VALUE": 3}), start=1)
    assert [each.get("ruleId", each.get("values")) for each in sent(scene)] == [5, [2], [3]]


def precise(unscaled: int) -> str:
    """A decimal as Kafka Connect's JSON has it: the unscaled value in two's complement, in Base64."""
    return b64encode(unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)).decode()


def with_schema(row: dict[str, Any], **scales: int) -> bytes:
    kind = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
    columns = [{"field": name, "parameters": {"scale": str(scale)}, **kind} for name, scale in scales.items()]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": columns}, {"field": "op"}]}
    return json.dumps({"schema": schema, "payload": {"op": "c", "before": None, "after": row}}).encode()


@pytest.mark.parametrize(
    ("unscaled", "scale", "limit"),
    [(2_050, 2, "20.5"), (-2_050, 2, "-20.5"), (-264_275_460, 4, "-26427.546"), (-1, 0, "-1"), (0, 2, "0"),
     (7, -3, "7000"), (-(10**37), 18, "-1" + "0" * 19)],
)  # fmt: skip
def test_a_decimal_in_base64_is_read_by_its_schema(scene: Scene, unscaled: int, scale: int, limit: str) -> None:
    row = {**ROW, "rule_id": precise(5), "limit": precise(unscaled), "window_minutes": precise(6_000)}
    apply_record(scene, with_schema(row, rule_id=0, limit=scale, window_minutes=2))
    (rule,) = sent(scene)
    assert (rule["ruleId"], str(Decimal(str(rule["limit"])).normalize()), rule["windowMinutes"]) == (
        5,
        str(Decimal(limit).normalize()),
        60,
    )


def test_a_decimal_of_variable_scale_is_read_and_an_impossible_one_is_refused(scene: Scene) -> None:
    oracle = {"scale": 1, "value": precise(-205)}
    apply_record(
        scene, envelope("c", {**ROW, "limit": oracle}), envelope("c", listed({"scale": 0, "value": precise(-7)}))
    )
    assert [each.get("limit", each.get("values")) for each in sent(scene)] == [-20.5, [-7]]
    apply_record(
        scene,
        with_schema({**ROW, "limit": "-20.50"}, limit=2),
        envelope("c", {**ROW, "limit": {"scale": -(10**9), "value": "1234"}}),
        start=2,
    )
    variable, wrong = refusals(scene)
    assert wrong == ["limit: is not a decimal in Base64, as its schema says"]
    assert "limit: must be a decimal number" in variable[0]
    assert len(sent(scene)) == 2


def test_a_text_that_did_not_change_is_kept(scene: Scene) -> None:
    placeholder = {"description": "__debezium_unavailable_value", "window_minutes": 60.0}
    apply_record(scene, envelope("c", {**ROW, "description": "long"}), envelope("u", {**ROW, **placeholder}))
    assert [(each["description"], each["windowMinutes"]) for each in sent(scene)] == [("long", 20), ("long", 60)]


def test_a_record_is_applied_once_and_the_same_row_changes_nothing(scene: Scene) -> None:
    apply_record(scene, envelope("c", ROW))
    apply_record(scene, envelope("c", {**ROW, "limit": "99"}))
    apply_record(scene, envelope("r", ROW), start=1)
    assert [each["limit"] for each in sent(scene)] == ["20.50"]


@pytest.mark.parametrize("form", [ROW, {**ROW, "grouping_key_names": '["payeeId","beneficiaryId"]'}])
def test_columns_are_named_either_way(scene: Scene, form: dict[str, Any]) -> None:
    camel = {"ruleId": 6, "ruleState": "SHADOW", "groupingKeyNames": ["payeeId"], "aggregatorFunctionType": "COUNT",
             "limitOperatorType": ">", "limit": 3, "windowSeconds": 90}  # fmt: skip
    apply_record(scene, envelope("c", form), json.dumps({"op": "c", "after": camel, "before": None}).encode())
    assert [each["groupingKeyNames"] for each in sent(scene)] == [["payeeId", "beneficiaryId"], ["payeeId"]]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"no json", "not JSON"),
        (b"1E+999999999999999999999", "not JSON"),
        (b'{"op":"c","after":{"rule_id":5,"limit":1E+999999999999999999999}}', "not JSON"),
        (envelope("c", {**ROW, "grouping_key_names": "[1E+999999999999999999999]"}), "grouping"),
        (envelope("c", {**ROW, "grouping_key_names": "[" * 100_000}), "grouping"),
        (b"[1]", "not a Debezium envelope"),
        (b'{"op":"c"}', "op"),
        (b"{" * 300_000, "at most"),
        (b"[" * 200_000, "not JSON"),
        (envelope("t"), "op"),
        (envelope("c", {**ROW, "limit": "much", "window_minutes": 0}), "limit"),
        (envelope("c", {**ROW, "filtr": "payeeId = 1"}), "filtr: is not a member; rename the column filter"),
        (envelope("c", {**ROW, "window_minutes": 20.5}), "windowMinutes"),
        (envelope("c", {**ROW, "description": "__debezium_unavailable_value"}), "description: is missing"),
        (envelope("d", None, {}), "ruleId"),
        (envelope("c", {"rule_state": "CONTROL", "control_type": "DELETE_RULES_ALL"}), "no controls"),
    ],
)
def test_an_invalid_rule_is_refused_recorded_and_skipped(scene: Scene, value: bytes, said: str) -> None:
    apply_record(scene, value, envelope("c", ROW))
    assert [each["ruleId"] for each in sent(scene)] == [5]
    (reasons,) = refusals(scene)
    assert said in " ".join(reasons)


@pytest.mark.parametrize("value", [each for each in HOSTILE.values() if each is not None])
def test_a_record_without_a_change_is_refused_and_skipped(scene: Scene, value: bytes) -> None:
    apply_record(scene, value, envelope("c", ROW))
    assert [each["ruleId"] for each in sent(scene)] == [5]
    assert len(refusals(scene)) == 1


def test_a_rule_of_another_source_stays_unchanged(scene: Scene) -> None:
    scene.service.create(ANN, rule_input(ruleId=5))
    apply_record(scene, envelope("c", ROW), envelope("d", None, ROW))
    assert scene.service.rule(5).row.state is StateName.DRAFT
    assert refusals(scene) == [["ruleId: belongs to ui"], ["ruleId: belongs to ui"]]


def test_an_edit_makes_a_rule_of_the_table_ours(scene: Scene) -> None:
    apply_record(scene, envelope("c", ROW))
    scene.service.edit(PAT, 5, 1, rule_input(limit=99))
    apply_record(scene, envelope("u", {**ROW, "limit": "1"}), start=1)
    assert scene.service.rule(5).row.document["limit"] == 99


def test_a_heartbeat_changes_no_rule() -> None:
    assert members_of(envelope("m")) is None
    with pytest.raises(RuleRejected):
        members_of(envelope("x", ROW))


def listed(value: object, name: str = "mules", **members: Any) -> dict[str, Any]:
    return {"list_name": name, "value": value, **members}


def test_rows_of_a_table_of_lists_change_its_lists(scene: Scene) -> None:
    until_ms = scene.clock.now_ms + 1_000
    apply_record(
        scene,
        envelope("r", listed(1)),
        envelope("c", listed(2, expires_at=until_ms)),
        envelope("c", {"listName": "types", "value": "CSH"}),
        envelope("u", listed(3), listed(1)),
        envelope("d", None, listed(2)),
        envelope("r", listed(3)),
        None,
    )
    assert [(each["listName"], each["listOperation"], each["values"]) for each in sent(scene)] == [
        ("mules", "SET", [1]), ("types", "SET", ["CSH"]), ("mules", "REMOVE", [1]), ("mules", "ADD", [3]),
    ]  # fmt: skip
    assert {each["source"] for each in sent(scene)} == {"cdc"}
    assert [(each.name, each.type, each.size, each.expiring) for each in scene.service.lists.rows()] == [
        ("mules", "long", 1, 0), ("types", "string", 1, 0),
    ]  # fmt: skip


def mapped(key: object, value: object, **members: Any) -> dict[str, Any]:
    return {"map_name": "limits", "key": key, "value": value, **members}


def test_rows_of_a_table_of_maps_change_its_maps(scene: Scene) -> None:
    until_ms = scene.clock.now_ms + 1_000
    typed = {"key_type": "long", "value_type": "decimal"}
    apply_record(
        scene,
        envelope("r", mapped(7, "250.00", **typed)),
        envelope("c", mapped(8, "1", **typed)),
        envelope("c", mapped(9, "2", expires_at=until_ms, **typed)),
        envelope("u", mapped(7, "300", **typed), mapped(7, "250.00", **typed)),
        envelope("d", None, mapped(8, "1", **typed)),
        envelope("r", mapped(7, "300.0", **typed)),
    )
    assert [(each["mapOperation"], each.get("entries") or each.get("keys")) for each in sent(scene)] == [
        ("SET", {"7": "250"}), ("ADD", {"7": "300"}), ("ADD", {"9": "2"}),
    ]  # fmt: skip
    (row,) = scene.service.maps.rows()
    assert (row.name, row.key_type, row.value_type, row.size, row.expiring, row.source) == (
        "limits", "long", "decimal", 2, 1, "cdc",
    )  # fmt: skip


def test_the_rows_of_a_map_need_no_types_and_fit_the_map(scene: Scene) -> None:
    apply_record(
        scene, envelope("r", mapped("de", 1)), envelope("c", mapped("fr", "2")), envelope("c", mapped("es", "x"))
    )
    (row,) = scene.service.maps.rows()
    assert (row.key_type, row.value_type, row.size) == ("string", "decimal", 2)
    assert len(refusals(scene)) == 1
    apply_record(scene, envelope("d", None, mapped("fr", "2")), start=50)
    assert scene.service.maps.export("limits") == "de,1\n"


def test_the_rows_of_a_poll_are_one_list_record_for_each_list_and_expiry(scene: Scene) -> None:
    until_ms = scene.clock.now_ms + 1_000
    rows = [envelope("r", listed(number)) for number in range(90)]
    rows += [envelope("r", listed(number, expires_at=until_ms)) for number in range(90, 95)]
    apply_record(scene, *rows, envelope("r", listed("a", "names")), envelope("r", listed("b", "names")))
    assert [(each["listName"], each["listOperation"], len(each["values"])) for each in sent(scene)] == [
        ("mules", "SET", 1), ("names", "SET", 1), ("mules", "ADD", 89), ("mules", "ADD", 5), ("names", "ADD", 1),
    ]  # fmt: skip
    apply_record(scene, *rows, *(envelope("d", None, listed(number)) for number in range(3)), start=200)
    assert [(each["listOperation"], each["values"]) for each in sent(scene)[5:]] == [("REMOVE", [0, 1, 2])]
    assert [(each.name, each.size, each.expiring) for each in scene.service.lists.rows()] == [
        ("mules", 92, 5), ("names", 2, 0),
    ]  # fmt: skip
    assert scene.service.verify_audit().whole


def test_the_rows_beside_a_wrong_one_still_share_records(scene: Scene) -> None:
    rows = [envelope("r", listed(number)) for number in range(64)]
    apply_record(scene, *rows[:40], envelope("c", listed("wrong")), *rows[40:])
    assert scene.service.lists.detail("mules").size == 64
    assert len(refusals(scene)) == 1
    assert len(sent(scene)) < 12


def test_list_rows_and_rules_keep_their_order(scene: Scene) -> None:
    rule = {**ROW, "when": "beneficiaryId in list('mules')"}
    apply_record(
        scene, envelope("c", listed(1)), envelope("c", rule), envelope("c", listed(2)), envelope("c", listed(3))
    )
    assert [each.get("values", each.get("ruleId")) for each in sent(scene)] == [[1], 5, [2, 3]]
    assert refusals(scene) == []


def test_a_wrong_row_of_a_list_is_refused_with_every_reason_and_skipped(scene: Scene) -> None:
    apply_record(
        scene,
        envelope("c", listed(1)),
        envelope("c", listed("x")),
        envelope("c", listed(2, name="Not a name", list_typ="long")),
        envelope("c", listed(None)),
        envelope("c", listed(2, expires_at="soon")),
        envelope("c", listed(2, expires_at=1_700_000_000_000_000)),
        envelope("c", listed("__debezium_unavailable_value")),
        envelope("c", listed(2)),
    )
    assert scene.service.lists.detail("mules").size == 2
    placeholder, microseconds, wrong, absent, odd, other = refusals(scene)
    assert [reason.split(":")[0] for reason in odd] == ["list_typ"]
    assert wrong == microseconds
    assert "expiresAt: must be epoch milliseconds before 2100" in wrong[0]
    assert [each.split(":")[0] for each in (*absent, *placeholder)] == ["values", "value"]
    assert [each.split(":")[0] for each in other] == ["listType"]


def test_an_edited_list_of_the_table_belongs_to_the_control_plane(scene: Scene) -> None:
    apply_record(scene, envelope("c", listed(1)))
    scene.service.lists.change(ANN, "mules", None, CollectionInput(ListOperation.ADD, ("2",)))
    apply_record(scene, envelope("c", listed(3)), start=5)
    assert refusals(scene) == [["listName: belongs to ui"]]
    assert scene.service.lists.detail("mules").size == 2
