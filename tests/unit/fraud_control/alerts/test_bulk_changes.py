"""A flood is cleared: all cases or alerts of a filter change with one audit row, and an undo restores them."""

from __future__ import annotations

import pytest

from fraud_control.domain.alert_search import AlertSearch
from fraud_control.domain.case_models import CaseOutcome, CaseSearch, CaseStatus
from fraud_control.domain.errors import Invalid, NotFound, RequestRefused
from fraud_control.domain.snoozing import Snoozing
from fraud_control.service import ids
from fraud_control.service.cases import bulk
from tests.support.control_plane.scene import ABE, ANN, VIC, Scene
from tests.unit.fraud_control.alerts.test_cases import UNCLOSED, arrive, close, of, payers, queue

NOT_FRAUD = CaseOutcome.NOT_FRAUD


def actions(scene: Scene) -> list[str]:
    return [row.action for row in scene.service.audit_rows().items]


def test_the_cases_that_only_one_revision_opened_are_closed_with_one_audit_row(scene: Scene) -> None:
    """Rule 1 floods from second 10 to 30. Payer 3 was known before, payer 4 has an alert of another rule too."""
    flood = [of(payer, 10 + payer) for payer in range(1, 9)]
    cases = arrive(scene, of(3, 1), *flood, of(4, 20, rule_id=2), of(50, 40), of(60, 25, rule_id=2))
    opened = CaseSearch(rule_id=1, only_rule=True, since_ms=10_000, until_ms=30_000)
    assert cases.count_open(opened) == 6
    done = cases.close_matching(ANN, opened, NOT_FRAUD, marks=True, comment="typing error")
    assert (done.cases, done.marked, done.remaining) == (6, 6, 0)
    assert sorted(payers(queue(cases, statuses=UNCLOSED))) == [3, 4, 50, 60]
    row = scene.service.audit_rows().items[0]
    assert (row.who, row.action, row.subject, row.seq) == ("ann", "case.bulk_close", "6 cases", done.audit_row)
    assert row.after == {
        "filter": {"ruleId": 1, "onlyRule": True, "since": 10_000, "until": 30_000},
        "outcome": "NOT_FRAUD", "cases": 6, "marked": 6, "comment": "typing error",
    }  # fmt: skip
    assert len(actions(scene)) == 1
    closed = queue(cases, statuses=frozenset({CaseStatus.CLOSED}))
    detail = cases.detail(closed[0].case_id)
    assert (detail.outcome, detail.revision, detail.not_fraud) == (NOT_FRAUD, 2, 1)
    assert (detail.events[0].who, detail.events[0].comment) == ("ann", "typing error")


def test_an_undo_reopens_the_cases_and_removes_the_marks_that_no_one_has_changed_since(scene: Scene) -> None:
    cases = arrive(scene, *(of(payer, payer) for payer in range(1, 6)))
    done = cases.close_matching(ANN, CaseSearch(), CaseOutcome.FRAUD, marks=True)
    assert done.audit_row is not None
    scene.clock.now_ms += 1_000
    arrive(scene, of(1, 10))  # opens the next case of payer 1
    second = next(each for each in queue(cases) if each.entity_value == "2")
    cases.change_status(ABE, second.case_id, second.revision, CaseStatus.CLOSED, CaseOutcome.INCONCLUSIVE)
    scene.clock.now_ms += 1_000
    undone = cases.undo(ABE, done.audit_row)
    assert (undone.cases, undone.marked, undone.remaining) == (3, 5, 1)
    assert sorted(payers(queue(cases, statuses=UNCLOSED))) == [1, 3, 4, 5]
    assert actions(scene) == ["case.bulk_undo", "case.status", "case.bulk_close"]
    arrive(scene, of(3, 11))
    assert next(each for each in queue(cases) if each.entity_value == "3").alerts == 2, "alerts join the open case"
    assert cases.undo(ABE, done.audit_row).audit_row is None, "nothing is left to undo"


def test_marks_of_users_stay_when_all_alerts_of_a_filter_are_marked(scene: Scene) -> None:
    cases = arrive(scene, *(of(7, number) for number in range(1, 5)), of(8, 9, rule_id=2))
    page, _ = scene.service.searches.page(AlertSearch(rule_id=1), Snoozing(), None, 1)
    scene.service.mark(ABE, page[0].alert.facts.alert_id, 1, 3, "FRAUD")
    scene.clock.now_ms += 1_000
    assert cases.count_unreviewed(AlertSearch(rule_id=1), Snoozing()) == 3
    done = cases.mark_matching(ANN, AlertSearch(rule_id=1), Snoozing(), "NOT_FRAUD", "flood")
    assert (done.cases, done.marked, done.remaining) == (0, 3, 0)
    found = {each.entity_value: each for each in queue(cases)}
    assert (found["7"].fraud, found["7"].not_fraud, found["8"].unreviewed) == (1, 3, 1)
    assert done.audit_row is not None
    assert cases.undo(ANN, done.audit_row).marked == 3
    found = {each.entity_value: each for each in queue(cases)}
    assert (found["7"].fraud, found["7"].unreviewed) == (1, 3)


def test_a_request_changes_a_bounded_number(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = arrive(scene, *(of(payer, payer) for payer in range(1, 8)))
    monkeypatch.setattr(bulk, "MOST_CASES", 3)
    monkeypatch.setattr(bulk, "MOST_MARKS", 2)
    monkeypatch.setattr(ids, "_AT_ONCE", 2)
    done = cases.close_matching(ANN, CaseSearch(), NOT_FRAUD, marks=True)
    assert (done.cases, done.marked, done.remaining) == (3, 2, 4)
    assert cases.mark_matching(ANN, AlertSearch(), Snoozing(), "FRAUD").remaining > 0
    assert [cases.close_matching(ANN, CaseSearch(), NOT_FRAUD, marks=False).remaining for _ in range(2)] == [1, 0]
    assert cases.close_matching(ANN, CaseSearch(), NOT_FRAUD, marks=False).audit_row is None


def test_a_bulk_change_needs_an_analyst_and_a_decision(scene: Scene) -> None:
    cases = arrive(scene, of(7, 1))
    close(scene, queue(cases)[0])
    for change in (
        lambda: cases.close_matching(VIC, CaseSearch(), NOT_FRAUD, marks=False),
        lambda: cases.mark_matching(VIC, AlertSearch(), Snoozing(), "FRAUD"),
        lambda: cases.undo(VIC, 1),
    ):
        with pytest.raises(RequestRefused):
            change()
    for outcome, marks in ((CaseOutcome.EXPIRED, False), (CaseOutcome.INCONCLUSIVE, True)):
        with pytest.raises(Invalid):
            cases.close_matching(ANN, CaseSearch(), outcome, marks=marks)
    with pytest.raises(NotFound, match="is no bulk change"):
        cases.undo(ANN, 1)
