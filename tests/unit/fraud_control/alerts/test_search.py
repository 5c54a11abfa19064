"""The search over everything: what is found by which text, and that each query reads an index."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from tests.support.control_plane.alerts import alert
from tests.support.control_plane.scene import ANN, Scene, rule_input

ALERT = "12345678-1234-1234-1234-123456789abc"


@pytest.fixture
def filled(scene: Scene) -> Scene:
    scene.service.create(ANN, rule_input(ruleId=4711, name="Rapid transfers"))
    scene.service.create(ANN, rule_input(ruleId=5, name="Rule beside 4711"))
    payment = {"transactionId": 99, "payeeId": 4711, "beneficiaryId": 9}
    alerts = [
        alert(1, 5, key={"payeeId": 4711}, triggeringEvent=payment, alertId=ALERT),
        alert(2, 5, key={"payeeId": 47110}, triggeringEvent={**payment, "transactionId": 98, "payeeId": 47110}),
    ]
    scene.index(*alerts)
    return scene


def test_a_number_finds_the_rule_the_cases_the_alerts_and_the_ids(filled: Scene) -> None:
    found = filled.service.search("4711 ")
    assert [each.rule_id for each in found.rules] == [4711, 5]
    assert [each.entity_value for each in found.cases] == ["4711", "47110"]
    assert [each.key for each in found.alerts] == [{"payeeId": 4711}]
    assert [(each.field, each.has_alerts) for each in found.ids][:2] == [("payeeId", True), ("beneficiaryId", False)]


def test_a_payment_a_case_and_an_alert_are_found_by_their_ids(filled: Scene) -> None:
    assert [each.alert_id for each in filled.service.search("99").alerts] == [ALERT]
    assert [each.case_id for each in filled.service.search("Case 2").cases] == [2]
    assert [each.alert_id for each in filled.service.search(ALERT.upper()).alerts] == [ALERT]


def test_a_rule_is_found_by_a_part_of_its_name(filled: Scene) -> None:
    found = filled.service.search("rapid TRANS")
    assert [each.name for each in found.rules] == ["Rapid transfers"]
    assert (list(found.cases), list(found.alerts), list(found.ids)) == ([], [], [])


def test_a_payer_without_alerts_is_offered(filled: Scene) -> None:
    found = filled.service.search("123456789")
    assert ("payeeId", False) in [(each.field, each.has_alerts) for each in found.ids]
    assert not filled.service.search("  ").ids
    assert not filled.service.search("9" * 30).ids


def test_no_query_reads_all_alerts_or_all_cases(filled: Scene) -> None:
    statements: list[tuple[str, object]] = []
    with filled.database.reading() as session:
        engine = session.get_bind()
        event.listen(engine, "before_cursor_execute", lambda *args: statements.append((args[2], args[3])))
        filled.service.search("4711")
        for statement, parameters in statements:
            if not statement.startswith("SELECT") or " items" in statement:
                continue
            plan = session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps = [row[3] for row in plan]
            scans = [each for each in steps if each.startswith("SCAN") and "(subquery" not in each]
            assert not [each for each in scans if "alert" in each or "cases" in each], (statement, steps)
    assert len(statements) < 20
