"""Pseudonyms in the audit log, the erasure of a person, and the retention of cases and of the audit log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError

from fraud_control.domain.alert_search import AlertSearch
from fraud_control.domain.case_models import CaseOutcome, CaseSearch, CaseStatus
from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.errors import AuditBroken, Invalid, NotFound, RequestRefused
from fraud_control.domain.roles import Actor
from fraud_control.domain.snoozing import Snoozing
from fraud_control.service.audit import AuditFilter, AuditScan
from fraud_control.service.erasure import Erasure, certificate_of, erase, keep_certificate
from fraud_control.service.retention import Expired, remove_expired
from fraud_control.settings import Retention
from fraud_control.store.models import AuditEntry, Base
from fraud_control.store.privacy_models import PseudonymRow
from fraud_rules.model.value_list import ListOperation, ListType
from fraud_rules.model.value_map import MapType, MapValueType
from fraud_rules.proof.certificate import Certificate, sealed
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.scene import ADA, ANN, Scene, rule_input

PAYER = "4711004711"
DAY_MS = 86_400_000
LIMITS = CollectionInput(ListOperation.SET, type=MapType(ListType.LONG, MapValueType.DECIMAL), entries=((PAYER, "5"),))


def arrive(scene: Scene, number: int, payer: str = PAYER, **members: Any) -> str:
    """Add an alert about a payer, and return its id."""
    found = alert(number, key={"payeeId": int(payer)}, **members)
    return scene.index(found)


def erased(scene: Scene, who: Actor = ADA, value: str = PAYER) -> Erasure:
    with scene.store.change(who) as work:
        return erase(work, who, value)


def expired(scene: Scene, **days: int) -> Expired:
    with scene.another(retention=Retention(**days)).store.change(ADA) as work:
        return remove_expired(work, ADA)


def everything(scene: Scene) -> str:
    """All rows of all tables as text, without the values of lists and what the detector has read of them."""
    with scene.database.reading() as session:
        return "\n".join(
            str(row)
            for table in Base.metadata.sorted_tables
            if table.name not in ("items", "item_revisions", "outbox", "approvals")
            for row in session.execute(table.select())
        )


def at_work(scene: Scene) -> str:
    """A person in every table that can name one. Returns the id of the alert."""
    scene.service.create(ANN, rule_input(ruleId=1))
    number = arrive(scene, 1, triggeringEvent={"transactionId": 1, "payeeId": int(PAYER)})
    (case,) = scene.service.cases.page(CaseSearch(), 10).cases
    scene.service.cases.comment(ANN, case.case_id, "called the customer")
    scene.service.mark(ANN, number, 1, 3, "FRAUD")
    scene.service.snooze(ANN, 1, {"payeeId": int(PAYER)}, scene.clock.now_ms + 60_000, "known")
    scene.service.searches.save(ANN, "mine", f"entity=payeeId%3A{PAYER}&since=7d")
    search = CaseSearch(entity=("payeeId", PAYER), text="4711")
    scene.service.cases.close_matching(ANN, search, CaseOutcome.FRAUD, marks=False, comment="done")
    return number


def test_the_audit_log_has_pseudonyms_instead_of_ids_and_of_comments_about_people(scene: Scene) -> None:
    at_work(scene)
    rows = {row.action: row for row in scene.service.audit_rows().items}
    person = rows["snooze"].after["key"]["payeeId"]
    assert person.startswith("id:") and len(person) == 35
    assert rows["case.bulk_close"].after["filter"] == {
        "entity": {"field": "payeeId", "value": person}, "text": "••••"
    }  # fmt: skip
    assert rows["case.comment"].after.keys() == {"commentDigest"}
    with scene.database.reading() as session:
        texts = str(session.execute(select(AuditEntry.subject, AuditEntry.before, AuditEntry.after)).all())
    assert PAYER not in texts and "called the customer" not in texts
    assert scene.service.verify_audit().whole


def test_an_erasure_leaves_no_trace_of_the_person_but_the_chain(scene: Scene) -> None:
    number = at_work(scene)
    arrive(scene, 2, "815")
    person = next(row for row in scene.service.audit_rows().items if row.action == "snooze").after["key"]["payeeId"]
    assert PAYER in everything(scene)
    found = erased(scene)
    assert found.erased == {
        "alerts": 1, "marks": 1, "cases": 1, "snoozes": 1, "saved_searches": 1, "deliveries": 0
    }  # fmt: skip
    assert (found.person, found.lists) == (person, [])
    assert PAYER not in everything(scene) and "called the customer" not in everything(scene)
    assert scene.service.verify_audit().whole
    assert scene.service.audit_rows().items[0].subject == f"person {person}"
    assert [each.entity_value for each in scene.service.cases.page(CaseSearch(), 10).cases] == ["815"]
    page, _ = scene.service.searches.page(AlertSearch(), Snoozing(), None, 10)
    assert [each.alert.offset for each in page] == [2]
    with pytest.raises(NotFound):
        scene.service.unmark(ANN, number)


def test_a_repeated_erasure_erases_what_came_since_under_a_new_pseudonym(scene: Scene) -> None:
    at_work(scene)
    first = erased(scene)
    assert not any(erased(scene).erased.values())
    arrive(scene, 3)
    again = erased(scene)
    assert (again.erased["alerts"], again.erased["cases"]) == (1, 1)
    assert again.person != first.person, "the person's key is erased"
    with scene.database.reading() as session:
        assert not session.scalar(select(func.count()).select_from(PseudonymRow))


def test_a_certificate_stays_in_the_audit_log(scene: Scene) -> None:
    document = msgspec.json.decode(sealed(Certificate("id:1", "now", [], {}, ["blocked"], [], [], [], [])))
    with scene.store.change(ADA) as work:
        keep_certificate(work, ADA, document)
    (row,) = scene.service.audit_rows(AuditFilter(action="person.certificate")).items
    with scene.database.reading() as session:
        assert msgspec.json.decode(certificate_of(session, row.seq)) == document
        with pytest.raises(NotFound):
            certificate_of(session, row.seq - 1)
    for other in ({}, {**document, "certificate": {**document["certificate"], "lists": []}}):
        with pytest.raises(Invalid), scene.store.change(ADA) as work:
            keep_certificate(work, ADA, other)


def test_an_erasure_names_the_lists_and_maps_that_keep_the_id(scene: Scene) -> None:
    scene.service.lists.create(ANN, "blocked", CollectionInput(ListOperation.SET, (PAYER,), ListType.LONG))
    scene.service.maps.create(ANN, "limits", LIMITS)
    found = erased(scene)
    assert (found.lists, found.maps) == (["blocked"], ["limits"])
    assert scene.service.lists.containing(int(PAYER)) == ["blocked"]


def test_only_an_admin_erases(scene: Scene) -> None:
    with pytest.raises(RequestRefused, match="needs the role admin"):
        erased(scene, ANN)


def test_retention_removes_closed_cases_and_keeps_open_ones(scene: Scene) -> None:
    scene.service.create(ANN, rule_input(ruleId=1))
    arrive(scene, 1)
    arrive(scene, 2, "815")
    closed, _ = sorted(scene.service.cases.page(CaseSearch(), 10).cases, key=lambda case: case.case_id)
    scene.service.cases.change_status(ANN, closed.case_id, 1, CaseStatus.CLOSED, CaseOutcome.FRAUD, None, "seen")
    scene.service.snooze(ANN, 1, {"payeeId": 5}, scene.clock.now_ms + 60_000, "known")
    assert expired(scene, cases_days=7) == Expired(cases=0, snoozes=0, audit_rows=0)
    scene.clock.now_ms += 8 * DAY_MS
    assert expired(scene) == Expired(cases=0, snoozes=0, audit_rows=0), "0 days keep everything"
    assert expired(scene, cases_days=7) == Expired(cases=1, snoozes=1, audit_rows=0)
    assert [each.entity_value for each in scene.service.cases.page(CaseSearch(), 10).cases] == ["815"]
    assert scene.service.audit_rows().items[0].action == "retention.remove"


def test_the_chain_starts_after_the_rows_that_retention_has_removed(scene: Scene) -> None:
    scan = AuditScan(2)
    for limit in (30, 31, 32):
        scene.service.create(ANN, rule_input(limit=limit))
    scan.check(scene.database, 1)
    scene.clock.now_ms += 8 * DAY_MS
    scene.service.create(ANN, rule_input(limit=33))
    assert expired(scene, audit_days=7).audit_rows == 3
    assert expired(scene, audit_days=7).audit_rows == 0
    newest, oldest = scene.service.audit_rows().items
    assert (newest.seq, oldest.seq) == (5, 4)
    assert newest.after["anchor"] == f"3:{oldest.previous_hash}"
    verdict = scene.service.verify_audit()
    assert (verdict.whole, verdict.rows) == (True, 5)
    for _ in range(5):
        assert scan.check(scene.database, 2).whole
    with pytest.raises(IntegrityError, match="append-only"), scene.database.writing() as session:
        session.execute(text("DELETE FROM audit WHERE seq = 4"))
    scene.service.create(ANN, rule_input(limit=34))
    assert scene.service.verify_audit().rows == 6


def test_retention_removes_no_row_of_a_broken_chain(scene: Scene) -> None:
    scene.service.create(ANN, rule_input())
    scene.service.create(ANN, rule_input(limit=31))
    with scene.database.writing() as session:
        session.execute(text("DROP TRIGGER audit_no_update"))
        session.execute(text("UPDATE audit SET who = 'eve' WHERE seq = 1"))
    scene.clock.now_ms += 8 * DAY_MS
    with pytest.raises(AuditBroken, match="row 1"):
        expired(scene, audit_days=7)
    assert len(scene.service.audit_rows().items) == 2
