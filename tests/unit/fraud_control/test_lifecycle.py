"""The roles that each transition needs: the whole table."""

from __future__ import annotations

import itertools

import pytest

from fraud_control.domain.errors import RequestRefused
from fraud_control.domain.lifecycle import (
    ChangeMode,
    StateName,
    check_decision,
    mode_of_edit,
    mode_of_transition,
)
from fraud_control.domain.roles import LEAST_ROLE, Actor, Permission, Role, granted, require
from tests.support.control_plane.scene import ADA, ANN, PAT, PIA, VIC

NO, ASK, DO = "no", "ask", "do"
PEOPLE = {"viewer": VIC, "analyst": ANN, "approver": PAT, "admin": ADA}
# The result of a transition by viewer, analyst, approver, admin; first without four eyes, then with four eyes.
STEPS = {
    ("DRAFT", "SHADOW"): ((NO, DO, DO, DO), (NO, DO, DO, DO)),
    ("DRAFT", "ACTIVE"): ((NO, NO, NO, DO), (NO, NO, NO, ASK)),
    ("DRAFT", "DELETE"): ((NO, ASK, DO, DO), (NO, ASK, DO, DO)),
    ("SHADOW", "ACTIVE"): ((NO, ASK, DO, DO), (NO, ASK, ASK, ASK)),
    ("SHADOW", "SIGNAL"): ((NO, ASK, DO, DO), (NO, ASK, ASK, ASK)),
    ("SHADOW", "DELETE"): ((NO, DO, DO, DO), (NO, DO, DO, DO)),
    ("ACTIVE", "PAUSE"): ((NO, ASK, DO, DO), (NO, ASK, DO, DO)),
    ("ACTIVE", "SHADOW"): ((NO, ASK, DO, DO), (NO, ASK, DO, DO)),
    ("ACTIVE", "DELETE"): ((NO, ASK, DO, DO), (NO, ASK, DO, DO)),
    ("SIGNAL", "PAUSE"): ((NO, ASK, DO, DO), (NO, ASK, DO, DO)),
    ("SIGNAL", "SHADOW"): ((NO, ASK, DO, DO), (NO, ASK, DO, DO)),
    ("SIGNAL", "DELETE"): ((NO, ASK, DO, DO), (NO, ASK, DO, DO)),
    ("PAUSE", "ACTIVE"): ((NO, ASK, DO, DO), (NO, ASK, ASK, ASK)),
    ("PAUSE", "SIGNAL"): ((NO, ASK, DO, DO), (NO, ASK, ASK, ASK)),
    ("PAUSE", "SHADOW"): ((NO, ASK, DO, DO), (NO, ASK, DO, DO)),
    ("PAUSE", "DELETE"): ((NO, ASK, DO, DO), (NO, ASK, DO, DO)),
}
EDITS = {
    "DRAFT": ((NO, DO, DO, DO), (NO, DO, DO, DO)),
    "SHADOW": ((NO, DO, DO, DO), (NO, DO, DO, DO)),
    "ACTIVE": ((NO, ASK, DO, DO), (NO, ASK, ASK, ASK)),
    "SIGNAL": ((NO, ASK, DO, DO), (NO, ASK, ASK, ASK)),
    "PAUSE": ((NO, ASK, DO, DO), (NO, ASK, DO, DO)),
    "DELETE": ((NO, NO, NO, NO), (NO, NO, NO, NO)),
}
NOBODYS = ((NO, NO, NO, NO), (NO, NO, NO, NO))
CASES = list(itertools.product((False, True), enumerate(PEOPLE)))


def result_of(course: ChangeMode) -> str:
    return {ChangeMode.NOW: DO, ChangeMode.REQUEST: ASK}[course]


def step(before: StateName, after: StateName, who: Actor, four_eyes: bool, own: bool = False) -> str:
    try:
        return result_of(mode_of_transition(before, after, who, four_eyes=four_eyes, own=own))
    except RequestRefused:
        return NO


def edit(state: StateName, who: Actor, four_eyes: bool) -> str:
    try:
        return result_of(mode_of_edit(state, who, four_eyes=four_eyes))
    except RequestRefused:
        return NO


@pytest.mark.parametrize(("before", "after"), list(itertools.product(StateName, StateName)))
def test_steps(before: StateName, after: StateName) -> None:
    wanted = STEPS.get((before.value, after.value), NOBODYS)
    for four_eyes, (place, name) in CASES:
        assert step(before, after, PEOPLE[name], four_eyes) == wanted[four_eyes][place], (name, four_eyes)


@pytest.mark.parametrize("state", StateName)
def test_edits(state: StateName) -> None:
    for four_eyes, (place, name) in CASES:
        assert edit(state, PEOPLE[name], four_eyes) == EDITS[state.value][four_eyes][place], (name, four_eyes)


def test_an_analyst_deletes_own_drafts() -> None:
    assert step(StateName.DRAFT, StateName.DELETE, ANN, True, own=True) == DO
    assert step(StateName.DRAFT, StateName.DELETE, VIC, True, own=True) == NO
    assert step(StateName.ACTIVE, StateName.DELETE, ANN, True, own=True) == ASK


@pytest.mark.parametrize(
    ("who", "requester", "contributors", "four_eyes", "may"),
    [
        (PAT, "ann", ("ann",), True, True),
        (PAT, "pat", ("ann",), True, False),
        (PAT, "ann", ("pat",), True, False),
        (PAT, "ann", ("ann", "pat"), True, False),
        (ADA, "ada", ("ann",), True, False),
        (PIA, "pat", ("ann",), True, True),
        (PIA, "pat", ("ann", "pat"), True, True),
        (PAT, "pat", ("pat",), False, True),
        (ANN, "abe", ("abe",), False, False),
        (ANN, "abe", ("abe",), True, False),
    ],
)
def test_approval_needs_another_user_and_the_role(
    who: Actor, requester: str, contributors: tuple[str, ...], four_eyes: bool, may: bool
) -> None:
    if may:
        check_decision(who, requester, contributors, four_eyes=four_eyes)
        return
    with pytest.raises(RequestRefused) as refused:
        check_decision(who, requester, contributors, four_eyes=four_eyes)
    assert refused.value.forbidden


def test_each_role_includes_those_before_it_but_an_analyst_is_no_auditor() -> None:
    assert not granted(None)
    for smaller, larger in itertools.combinations(Role, 2):
        included = (smaller, larger) != (Role.AUDITOR, Role.ANALYST)
        assert larger.includes(smaller) is included and not smaller.includes(larger)
        assert (set(granted(smaller)) < set(granted(larger))) is included
    assert set(granted(Role.ADMIN)) == set(Permission) == set(LEAST_ROLE)


def test_an_auditor_reads_the_audit_log_and_changes_nothing() -> None:
    assert set(granted(Role.AUDITOR)) == {Permission.READ, Permission.READ_AUDIT}
    assert Permission.READ_AUDIT not in granted(Role.ANALYST)
    auditor = Actor("amy", Role.AUDITOR)
    for before, after in STEPS:
        for four_eyes in (False, True):
            assert step(StateName(before), StateName(after), auditor, four_eyes, own=True) == NO
            assert edit(StateName(before), auditor, four_eyes) == NO


def test_a_refusal_names_the_required_role() -> None:
    require(PAT, Permission.DECIDE)
    with pytest.raises(RequestRefused, match="needs the role admin; your role is approver"):
        require(PAT, Permission.CONTROL)
