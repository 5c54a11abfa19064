"""Cases: how alerts join them, the order and filters of the queue, changes by several users, and bulk marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fraud_control.domain.alert_search import AlertSearch, AlertSeverity, ReviewVerdict
from fraud_control.domain.case_models import Case, CaseOutcome, CaseSearch, CaseSort, CaseStatus
from fraud_control.domain.errors import Conflict, Invalid, NotFound, RequestRefused
from fraud_control.domain.roles import Role
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.events import FeedAlert
from fraud_control.feed.place import FeedSource
from fraud_control.service.cases import marks
from fraud_control.service.cases.queries import OpenCases, count_open
from fraud_control.settings import ResolveHours
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.desk import CaseDesk
from tests.support.control_plane.scene import ABE, ADA, ANN, VIC, Scene, rule_input

UNCLOSED = frozenset({CaseStatus.OPEN, CaseStatus.IN_WORK})


def arrive(scene: Scene, *alerts: FeedAlert) -> CaseDesk:
    scene.index(*alerts)
    return scene.service.cases


def of(payer: int, number: int, severity: str = "low", **members: Any) -> FeedAlert:
    """An alert about a payer. Its number gives its time."""
    rule = {"ruleId": members.pop("rule_id", 1), "severity": severity}
    return alert(number, rule["ruleId"], violatedRule=rule, key={"payeeId": payer}, **members)


def queue(cases: CaseDesk, **filters: Any) -> Sequence[Case]:
    return cases.page(CaseSearch(**filters), 100).cases


def payers(found: Sequence[Case]) -> list[int]:
    return [int(each.entity_value) for each in found]


def close(scene: Scene, case: Case, through: int | None = None) -> None:
    place = None if through is None else (through * 1_000, int(FeedSource.ALERTS), through)
    scene.service.cases.change_status(
        ANN, case.case_id, case.revision, CaseStatus.CLOSED, CaseOutcome.FRAUD, place, "seen"
    )


def alerts_of(scene: Scene, case_id: int) -> list[int]:
    page, _ = scene.service.searches.page(AlertSearch(case_id=case_id), Snoozing(), None, 100)
    return sorted(each.alert.offset for each in page)


def test_alerts_of_one_entity_are_one_case(scene: Scene) -> None:
    cases = arrive(scene, of(7, 1), of(8, 2), of(7, 3, "High", rule_id=2))
    arrive(scene, of(7, 4), of(7, 4))
    first, second = queue(cases)
    assert (first.entity_field, first.entity_value, first.status) == ("payeeId", "7", CaseStatus.OPEN)
    assert (first.alerts, first.unreviewed, first.severity) == (3, 3, AlertSeverity.HIGH)
    assert (first.first_alert_ms, first.last_alert_ms) == (1_000, 4_000)
    assert [(each.rule_id, each.alerts) for each in first.rules] == [(1, 2), (2, 1)]
    assert (second.entity_value, second.alerts) == ("8", 1)
    assert alerts_of(scene, first.case_id) == [1, 3, 4]


def test_an_alert_of_several_ids_belongs_to_the_first_of_the_schema_and_is_related_to_the_others(scene: Scene) -> None:
    payment = {"transactionId": 1, "payeeId": 7, "beneficiaryId": 9}
    pair = alert(1, key={"beneficiaryId": 9, "payeeId": 7}, triggeringEvent=payment)
    about_beneficiary = alert(2, key={"beneficiaryId": 9}, triggeringEvent=payment)
    cases = arrive(scene, pair, about_beneficiary)
    payer, beneficiary = queue(cases)
    assert (payer.entity_field, beneficiary.entity_field) == ("payeeId", "beneficiaryId")
    assert [each.case_id for each in cases.overview(payer.case_id).related] == [beneficiary.case_id]


def test_shadow_alerts_snoozed_alerts_and_alerts_without_a_key_belong_to_no_case(scene: Scene) -> None:
    scene.service.create(ANN, rule_input(ruleId=1))
    scene.service.snooze(ANN, 1, {"payeeId": 7}, scene.clock.now_ms + 60_000, "known")
    at_s = scene.clock.now_ms // 1_000
    shadow = alert(1, 1, FeedSource.SHADOW, shadow=True, key={"payeeId": 6})
    cases = arrive(scene, shadow, alert(2, key={}), of(7, at_s + 1), of(7, at_s - 1, rule_id=2), of(7, at_s + 61))
    (only,) = queue(cases)
    assert alerts_of(scene, only.case_id) == [at_s - 1, at_s + 61]


def test_an_alert_after_the_closing_opens_the_next_case(scene: Scene) -> None:
    cases = arrive(scene, of(7, 1))
    (first,) = queue(cases)
    close(scene, first)
    arrive(scene, of(7, 2))
    (second,) = queue(cases, statuses=UNCLOSED)
    assert second.case_id > first.case_id
    detail = cases.detail(second.case_id)
    assert [(each.case_id, each.outcome) for each in detail.same_entity] == [(first.case_id, CaseOutcome.FRAUD)]
    with pytest.raises(Conflict, match=f"open case {second.case_id}"):
        cases.change_status(ANN, first.case_id, 2, CaseStatus.OPEN)
    close(scene, second)
    assert cases.change_status(ANN, first.case_id, 2, CaseStatus.IN_WORK).assignee == "ann"
    arrive(scene, of(7, 3))
    assert alerts_of(scene, first.case_id) == [1, 3]


def test_alerts_that_the_user_has_not_seen_leave_a_case_that_closes(scene: Scene) -> None:
    cases = arrive(scene, of(7, 1), of(7, 2), of(7, 3, "critical"), of(7, 4))
    (case,) = queue(cases)
    close(scene, case, through=2)
    closed, following = queue(cases, sort=CaseSort.OLDEST)
    assert (alerts_of(scene, closed.case_id), closed.alerts, closed.last_alert_ms) == ([1, 2], 2, 2_000)
    assert (alerts_of(scene, following.case_id), following.alerts) == ([3, 4], 2)
    assert (following.status, following.severity, following.first_alert_ms) == (
        CaseStatus.OPEN,
        AlertSeverity.CRITICAL,
        3_000,
    )
    arrive(scene, of(7, 5))
    assert alerts_of(scene, following.case_id) == [3, 4, 5]


@pytest.fixture
def many(scene: Scene) -> CaseDesk:
    """Payers 0 to 9 with one alert each. A higher payer came later."""
    severities = ["low", "critical", "high", "low", "odd"]
    found = arrive(scene, *(of(payer, 10 + payer, severities[payer % 5], rule_id=1 + payer % 2) for payer in range(10)))
    scene.service.bind(ADA, "ada", Role.ADMIN)
    for user in ("ann", "abe"):
        scene.service.bind(ADA, user, Role.ANALYST)
    ids = {int(each.entity_value): each.case_id for each in queue(found)}
    found.assign(ANN, ids[3], 1, "ann")
    found.change_status(ABE, ids[6], 1, CaseStatus.IN_WORK)
    found.change_status(ABE, ids[1], 1, CaseStatus.CLOSED, CaseOutcome.NOT_FRAUD)
    return found


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [1, 6, 2, 7, 0, 3, 5, 8, 4, 9]),
        ({"statuses": UNCLOSED}, [6, 2, 7, 0, 3, 5, 8, 4, 9]),
        ({"statuses": frozenset({CaseStatus.OPEN})}, [2, 7, 0, 3, 5, 8, 4, 9]),
        ({"statuses": frozenset({CaseStatus.IN_WORK})}, [6]),
        ({"statuses": frozenset({CaseStatus.CLOSED})}, [1]),
        ({"statuses": frozenset({CaseStatus.CLOSED, CaseStatus.IN_WORK})}, [1, 6]),
        ({"sort": CaseSort.NEWEST}, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        ({"sort": CaseSort.OLDEST, "statuses": UNCLOSED}, [0, 2, 3, 4, 5, 6, 7, 8, 9]),
        ({"assignee": "ann"}, [3]),
        ({"unassigned": True, "statuses": UNCLOSED}, [2, 7, 0, 5, 8, 4, 9]),
        ({"severities": frozenset({AlertSeverity.HIGH, AlertSeverity.OTHER})}, [2, 7, 4, 9]),
        ({"rule_id": 2}, [1, 7, 3, 5, 9]),
        ({"entity": ("payeeId", "4")}, [4]),
        ({"text": "4"}, [4]),
        ({"alert_id": of(8, 18).facts.alert_id}, [8]),
        ({"alert_id": "none"}, []),
    ],
)
def test_the_queue_has_filters_and_orders(many: CaseDesk, filters: dict[str, Any], expected: list[int]) -> None:
    assert payers(queue(many, **filters)) == expected


@pytest.mark.parametrize("sort", CaseSort)
def test_the_queue_continues_in_both_directions(many: CaseDesk, sort: CaseSort) -> None:
    search = CaseSearch(sort=sort, statuses=UNCLOSED)
    whole = many.page(search, 100).cases
    page, found = many.page(search, 4), list[Case]()
    while True:
        found += page.cases
        if not page.more:
            break
        page = many.page(search, 4, after=page.cases[-1].case_id)
    assert found == list(whole)
    assert many.page(search, 2, before=whole[5].case_id).cases == whole[3:5]
    assert not many.page(search, 5, before=whole[0].case_id).cases
    with pytest.raises(Invalid, match="does not exist"):
        many.page(search, 4, after=99)


def test_the_next_case_follows_a_case_that_has_left_the_search(scene: Scene, many: CaseDesk) -> None:
    search = CaseSearch(statuses=UNCLOSED)
    first, second = many.page(search, 2).cases
    close(scene, first)
    assert many.page(search, 1, after=first.case_id).cases[0].case_id == second.case_id


def test_a_change_names_the_revision_that_the_user_has_read(scene: Scene) -> None:
    cases = arrive(scene, of(7, 1))
    scene.service.bind(ADA, "ada", Role.ADMIN)
    scene.service.bind(ADA, "abe", Role.ANALYST)
    (case,) = queue(cases)
    assert cases.assign(ANN, case.case_id, 1, "abe").assignee == "abe"
    with pytest.raises(Conflict, match="'ann' has changed case") as raised:
        cases.change_status(ABE, case.case_id, 1, CaseStatus.CLOSED, CaseOutcome.FRAUD)
    assert raised.value.revision == 2
    arrive(scene, of(7, 2))
    assert cases.change_status(ABE, case.case_id, 2, CaseStatus.IN_WORK).revision == 3, "alerts change no revision"
    assert cases.assign(ANN, case.case_id, 3, None).assignee is None


def test_an_invalid_change_is_refused(scene: Scene) -> None:
    cases = arrive(scene, of(7, 1))
    (case,) = queue(cases)
    for user in ("nobody", "vic"):
        with pytest.raises(Invalid, match="analyst"):
            cases.assign(ANN, case.case_id, 1, user)
    for status, outcome in ((CaseStatus.CLOSED, None), (CaseStatus.OPEN, CaseOutcome.FRAUD)):
        with pytest.raises(Invalid, match="outcome"):
            cases.change_status(ANN, case.case_id, 1, status, outcome)
    with pytest.raises(Invalid, match="comment"):
        cases.comment(ANN, case.case_id, "  ")
    with pytest.raises(NotFound, match="no case 99"):
        cases.comment(ANN, 99, "x")
    assert cases.detail(case.case_id).revision == 1


def test_a_viewer_only_reads(scene: Scene) -> None:
    cases = arrive(scene, of(7, 1))
    (case,) = queue(cases)
    attempts = [
        lambda: cases.assign(VIC, case.case_id, 1, "vic"),
        lambda: cases.change_status(VIC, case.case_id, 1, CaseStatus.IN_WORK),
        lambda: cases.comment(VIC, case.case_id, "x"),
        lambda: cases.mark_case(VIC, case.case_id, "FRAUD"),
        lambda: cases.mark_alerts(VIC, [of(7, 1).facts.alert_id], "FRAUD"),
    ]
    for attempt in attempts:
        with pytest.raises(RequestRefused) as raised:
            attempt()
        assert raised.value.forbidden
    assert cases.detail(case.case_id).events == []


def test_the_history_and_the_audit_log_have_each_change(scene: Scene) -> None:
    cases = arrive(scene, of(7, 1))
    (case,) = queue(cases)
    cases.comment(ANN, case.case_id, " called the bank ")
    cases.change_status(ANN, case.case_id, 1, CaseStatus.IN_WORK)
    cases.mark_case(ANN, case.case_id, "FRAUD")
    events = cases.change_status(ANN, case.case_id, 2, CaseStatus.CLOSED, CaseOutcome.FRAUD, None, "sure").events
    assert [(each.action, each.comment, each.detail) for each in reversed(events)] == [
        ("comment", "called the bank", {}),
        ("status", "", {"status": "IN_WORK", "outcome": None}),
        ("mark", "", {"verdict": "FRAUD", "alerts": 1}),
        ("status", "sure", {"status": "CLOSED", "outcome": "FRAUD"}),
    ]
    rows = scene.service.audit_rows().items
    assert [row.action for row in reversed(rows)] == ["case.comment", "case.status", "alert.mark", "case.status"]
    assert {row.subject for row in rows} == {f"case {case.case_id}"}
    digest = rows[0].after.pop("commentDigest")
    assert digest.startswith("id:"), "the text of the comment can be erased"
    assert rows[0].after == {"status": "CLOSED", "outcome": "FRAUD", "assignee": "ann"}
    assert scene.service.verify_audit().whole


def test_all_alerts_of_a_case_are_marked_at_once_but_those_that_a_user_has_marked(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MOST_MARKS", 2)
    alerts = [of(7, number, rule_id=1 + number % 2) for number in range(1, 7)]
    cases = arrive(scene, *alerts, of(8, 9))
    case_id = queue(cases, entity=("payeeId", "7"))[0].case_id
    scene.service.mark(ABE, alerts[1].facts.alert_id, 1, 3, "NOT_FRAUD")
    through = alerts[4].position
    first, second = (cases.mark_case(ANN, case_id, "FRAUD", through) for _ in range(2))
    assert [(each.marked, each.remaining) for each in (first, second)] == [(2, 2), (2, 0)]
    case = cases.detail(case_id)
    assert (case.fraud, case.not_fraud, case.unreviewed) == (4, 1, 1), "the last alert came later"
    found = scene.service.marks([each.facts.alert_id for each in alerts])
    assert found[alerts[0].facts.alert_id].who == "ann"
    assert len(found) == 5


def test_a_selection_is_marked_and_unmarked(scene: Scene) -> None:
    alerts = [of(7, 1), of(8, 2), of(8, 3)]
    cases = arrive(scene, *alerts)
    ids = [each.facts.alert_id for each in alerts]
    scene.service.mark(ABE, ids[0], 1, 3, "FRAUD")
    done = cases.mark_alerts(ANN, [*ids[:2], "unknown"], "FRAUD")
    assert (done.marked, done.unchanged, done.unknown) == (1, 1, ["unknown"])
    assert cases.mark_alerts(ANN, ids, "NOT_FRAUD").marked == 3
    page, _ = scene.service.searches.page(AlertSearch(verdict=ReviewVerdict.NOT_FRAUD), Snoozing(), None, 9)
    assert len(page) == 3
    first = scene.service.audit_rows().items[0]
    assert (first.action, first.subject) == ("alert.mark", "3 alerts")
    assert first.before == {ids[0]: {"verdict": "FRAUD", "who": "abe"}, ids[1]: {"verdict": "FRAUD", "who": "ann"}}
    assert cases.mark_alerts(ANN, ids, None).marked == 3
    assert scene.service.marks(ids) == {}
    events = cases.detail(queue(cases, entity=("payeeId", "8"))[0].case_id).events
    assert [each.detail for each in events] == [
        {"verdict": None, "alerts": 2},
        {"verdict": "NOT_FRAUD", "alerts": 2},
        {"verdict": "FRAUD", "alerts": 1},
    ]


DAY_MS = 86_400_000


def test_an_untouched_case_expires_with_its_alerts_and_the_audit_log_says_so(scene: Scene) -> None:
    cases = arrive(scene, of(6, 1), of(7, 2), of(8, 3), of(9, 50))
    by_payer = {each.entity_value: each.case_id for each in queue(cases)}
    cases.comment(ANN, by_payer["7"], "waits for the bank")
    cases.change_status(ANN, by_payer["8"], 1, CaseStatus.CLOSED, CaseOutcome.INCONCLUSIVE)
    announced = {each.entity_value: each.expires_ms for each in queue(cases)}
    assert announced == {"6": 1_000 + 30 * DAY_MS, "7": None, "8": None, "9": 50_000 + 30 * DAY_MS}
    scene.prune(10_000)
    assert payers(queue(cases, statuses=UNCLOSED, sort=CaseSort.OLDEST)) == [7, 9]
    left = cases.detail(by_payer["7"])
    assert (left.alerts, left.unreviewed) == (1, 0)
    expired = cases.detail(by_payer["6"])
    assert (expired.status, expired.outcome, expired.expires_ms) == (CaseStatus.CLOSED, CaseOutcome.EXPIRED, None)
    newest = scene.service.audit_rows(limit=1).items[0]
    assert (newest.who, newest.action, newest.subject) == ("system:cases", "case.expire", f"case {expired.case_id}")
    scene.prune(10_000)
    assert scene.service.audit_rows(limit=1).items[0].seq == newest.seq, "it expires once"


def test_an_expired_case_leaves_a_year_later_and_a_decided_one_never(scene: Scene) -> None:
    cases = arrive(scene, of(6, 1), of(7, 2))
    close(scene, queue(cases)[1])
    scene.prune(10_000)
    assert payers(queue(cases, sort=CaseSort.OLDEST)) == [6, 7]
    scene.prune(10_000 + 366 * DAY_MS)
    assert payers(queue(cases, sort=CaseSort.OLDEST)) == [7]


def test_retracted_alerts_do_not_count_and_a_case_of_only_such_alerts_closes(scene: Scene) -> None:
    high, low = of(7, 1, "critical"), of(7, 2, "low")
    cases = arrive(scene, high, low)
    scene.correct(high.facts.alert_id, "RETRACTED")
    (case,) = queue(cases, statuses=UNCLOSED)
    assert (case.severity, case.unreviewed, case.retracted) == (AlertSeverity.LOW, 1, 1)
    scene.correct(low.facts.alert_id, "RETRACTED")
    (case,) = queue(cases)
    assert (case.status, case.outcome, case.unreviewed, case.retracted) == ("CLOSED", CaseOutcome.RETRACTED, 0, 2)
    assert scene.service.audit_rows(limit=1).items[0].action == "case.retract"
    scene.correct(high.facts.alert_id, "ADDED")
    (case,) = queue(cases, statuses=UNCLOSED)
    assert (case.severity, case.unreviewed, case.outcome) == (AlertSeverity.CRITICAL, 1, None)


def test_an_alert_that_is_in_effect_again_joins_the_open_case_of_its_entity(scene: Scene) -> None:
    first = of(7, 1, "critical")
    cases = arrive(scene, first)
    scene.correct(first.facts.alert_id, "RETRACTED")
    arrive(scene, of(7, 2))
    scene.correct(first.facts.alert_id, "ADDED")
    (case,) = queue(cases, statuses=UNCLOSED)
    assert (case.alerts, case.severity, alerts_of(scene, case.case_id)) == (2, AlertSeverity.CRITICAL, [1, 2])


def test_a_case_in_work_stays_open_without_urgency_when_its_alerts_are_retracted(scene: Scene) -> None:
    found = of(7, 1, "critical")
    cases = arrive(scene, found)
    cases.change_status(ANN, queue(cases)[0].case_id, 1, CaseStatus.IN_WORK)
    scene.correct(found.facts.alert_id, "RETRACTED")
    (case,) = queue(cases)
    assert (case.status, case.severity, case.retracted) == (CaseStatus.IN_WORK, AlertSeverity.OTHER, 1)


def test_a_person_cannot_choose_the_outcomes_of_the_control_plane(scene: Scene) -> None:
    (case,) = queue(arrive(scene, of(7, 1)))
    for outcome in (CaseOutcome.EXPIRED, CaseOutcome.RETRACTED):
        with pytest.raises(Invalid, match="no decision of a person"):
            scene.service.cases.change_status(ANN, case.case_id, 1, CaseStatus.CLOSED, outcome)


def test_open_cases_are_counted(scene: Scene, many: CaseDesk) -> None:
    with scene.database.reading() as session:
        assert count_open(session, ResolveHours(), 0) == OpenCases(cases=9, unassigned=7, overdue=0)
    assert many.assignees() == ("abe", "ada", "ann")


def test_a_case_is_due_some_hours_after_its_first_alert_by_its_severity(scene: Scene) -> None:
    now_s = scene.clock.now_ms // 1_000
    hour_s = 3_600
    cases = arrive(
        scene,
        of(1, now_s - 25 * hour_s, "high"),
        of(2, now_s - 23 * hour_s, "high"),
        of(3, now_s - 5 * hour_s, "critical"),
        of(4, now_s - 999 * hour_s, "unknown"),
        of(5, now_s - 167 * hour_s),
    )
    assert payers(queue(cases, sort=CaseSort.DUE)) == [1, 3, 2, 5, 4]
    assert payers(queue(cases, overdue=True)) == [3, 1]
    by_payer = {case.entity_value: case.due_ms for case in queue(cases)}
    assert (by_payer["2"], by_payer["4"]) == ((now_s + hour_s) * 1_000, None)
    after = cases.page(CaseSearch(sort=CaseSort.DUE), 2, after=queue(cases, sort=CaseSort.DUE)[0].case_id)
    assert (payers(after.cases), after.more) == ([3, 2], True)
    with scene.database.reading() as session:
        assert count_open(session, ResolveHours(), scene.clock.now_ms).overdue == 2
    close(scene, queue(cases, overdue=True)[0])
    assert payers(queue(cases, overdue=True)) == [1]
    assert queue(cases, statuses=frozenset({CaseStatus.CLOSED}))[0].due_ms is None


def test_a_case_is_handed_over_with_a_note(scene: Scene) -> None:
    scene.service.bind(ADA, "ada", Role.ADMIN)
    scene.service.bind(ADA, "abe", Role.ANALYST)
    cases = arrive(scene, of(7, 1), of(8, 2))
    first, second = queue(cases)
    cases.assign(ANN, first.case_id, 1, "abe", "  call the payer at nine ")
    cases.assign(ABE, second.case_id, 1, "abe")
    (handed,) = queue(cases, assignee="abe", handed=True)
    assert (handed.case_id, handed.handed_by) == (first.case_id, "ann")
    event = cases.detail(first.case_id).events[0]
    assert (event.who, event.detail, event.comment) == ("ann", {"assignee": "abe"}, "call the payer at nine")
    assert cases.assign(ABE, first.case_id, 2, None).handed_by is None
