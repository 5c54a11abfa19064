"""What the page of a case shows beside its alerts: the money, the payments, the lists, and the cases of other ids."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from fraud_control.domain.case_models import CaseOutcome, CaseSearch, CaseStatus
from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.errors import NotFound
from fraud_control.feed.events import FeedAlert
from fraud_rules.model.value_list import ListOperation, ListType
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.scene import ANN, Scene
from tests.unit.fraud_control.alerts.test_cases import arrive


def about(number: int, transaction: int, amount: object, **members: Any) -> FeedAlert:
    payment = {"transactionId": transaction, "payeeId": 7, "beneficiaryId": 9, "paymentAmount": amount}
    return alert(number, key=members.pop("key", {"payeeId": 7}), triggeringEvent=payment, **members)


def test_each_payment_counts_once_and_exactly(scene: Scene) -> None:
    cases = arrive(scene, about(1, 1, 0.1), about(2, 2, 0.2), about(3, 2, 0.2), about(4, 3, None))
    found = cases.overview(1)
    assert (found.amount_field, found.amount, found.complete) == ("paymentAmount", Decimal("0.3"), True)
    assert Decimal(cases.detail(1).amount or 0) == Decimal("0.3"), "also in the table"
    assert [each["transactionId"] for each in found.payments] == [3, 2, 1]


def test_a_retracted_alert_puts_no_amount_at_stake(scene: Scene) -> None:
    retracted = about(1, 1, 5)
    cases = arrive(scene, retracted)
    scene.correct(retracted.facts.alert_id, "RETRACTED")
    assert (cases.overview(1).amount, cases.overview(1).payments) == (None, [])
    assert cases.detail(1).amount is None


def test_the_lists_and_the_earlier_cases_of_the_other_ids_are_found(scene: Scene) -> None:
    scene.service.lists.create(ANN, "mules", CollectionInput(ListOperation.SET, ("7",), ListType.LONG))
    scene.service.lists.create(ANN, "others", CollectionInput(ListOperation.SET, ("8",), ListType.LONG))
    cases = arrive(scene, about(1, 1, 5, key={"beneficiaryId": 9}))
    cases.change_status(ANN, 1, 1, CaseStatus.CLOSED, CaseOutcome.FRAUD)
    arrive(scene, about(2, 2, 5))
    (case,) = cases.page(CaseSearch(statuses=frozenset({CaseStatus.OPEN})), 9).cases
    found = cases.overview(case.case_id)
    assert (found.field, found.value, found.lists) == ("payeeId", 7, ["mules"])
    assert [(each.entity_value, each.outcome) for each in found.related] == [("9", CaseOutcome.FRAUD)]


def test_an_unknown_case_has_no_overview(scene: Scene) -> None:
    with pytest.raises(NotFound):
        scene.service.cases.overview(1)
