"""The lifecycle of a rule: DRAFT -> SHADOW -> ACTIVE <-> PAUSE -> DELETE, and the role that each step needs. Pure.

A SIGNAL is live like an ACTIVE rule, but never alerts. Only the store knows drafts. A step that can hold payments
(activating, resuming or editing a live rule) may need the approval of a second person.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from fraud_control.domain.errors import RefusalCause, RequestRefused
from fraud_control.domain.roles import LEAST_ROLE, Actor, Permission, Role


class StateName(StrEnum):
    """The state of a rule."""

    DRAFT = "DRAFT"
    SHADOW = "SHADOW"
    ACTIVE = "ACTIVE"
    SIGNAL = "SIGNAL"
    PAUSE = "PAUSE"
    DELETE = "DELETE"

    @property
    def in_log(self) -> bool:
        """Whether the rule log holds rules of this state."""
        return self not in (StateName.DRAFT, StateName.DELETE)


class ChangeMode(StrEnum):
    """How a change proceeds: at once, or as a request that waits for approval."""

    NOW = "now"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class _Step:
    """The rule for one step. A user with the role `least` takes it at once, unless the step is `weighty` and the
    settings require four eyes. The author of a draft needs only the role `own`.
    """

    least: Role
    weighty: bool = False
    own: Role | None = None


_APPROVER = LEAST_ROLE[Permission.ACTIVATE]
_ANALYST = LEAST_ROLE[Permission.SHADOW]

_STEPS: Final[Mapping[tuple[StateName, StateName], _Step]] = MappingProxyType(
    {
        (StateName.DRAFT, StateName.SHADOW): _Step(_ANALYST),
        (StateName.DRAFT, StateName.ACTIVE): _Step(Role.ADMIN, weighty=True),
        (StateName.DRAFT, StateName.DELETE): _Step(_APPROVER, own=_ANALYST),
        (StateName.SHADOW, StateName.ACTIVE): _Step(_APPROVER, weighty=True),
        (StateName.SHADOW, StateName.SIGNAL): _Step(_APPROVER, weighty=True),
        (StateName.SHADOW, StateName.DELETE): _Step(_ANALYST),
        (StateName.ACTIVE, StateName.PAUSE): _Step(LEAST_ROLE[Permission.PAUSE]),
        (StateName.ACTIVE, StateName.SHADOW): _Step(LEAST_ROLE[Permission.PAUSE]),
        (StateName.ACTIVE, StateName.DELETE): _Step(LEAST_ROLE[Permission.DELETE]),
        (StateName.SIGNAL, StateName.PAUSE): _Step(LEAST_ROLE[Permission.PAUSE]),
        (StateName.SIGNAL, StateName.SHADOW): _Step(LEAST_ROLE[Permission.PAUSE]),
        (StateName.SIGNAL, StateName.DELETE): _Step(LEAST_ROLE[Permission.DELETE]),
        (StateName.PAUSE, StateName.ACTIVE): _Step(_APPROVER, weighty=True),
        (StateName.PAUSE, StateName.SIGNAL): _Step(_APPROVER, weighty=True),
        (StateName.PAUSE, StateName.SHADOW): _Step(_APPROVER),
        (StateName.PAUSE, StateName.DELETE): _Step(LEAST_ROLE[Permission.DELETE]),
    }
)

_EDITS: Final[Mapping[StateName, _Step]] = MappingProxyType(
    {
        StateName.DRAFT: _Step(LEAST_ROLE[Permission.DRAFT]),
        StateName.SHADOW: _Step(LEAST_ROLE[Permission.DRAFT]),
        StateName.ACTIVE: _Step(LEAST_ROLE[Permission.EDIT_LIVE], weighty=True),
        StateName.SIGNAL: _Step(LEAST_ROLE[Permission.EDIT_LIVE], weighty=True),
        StateName.PAUSE: _Step(LEAST_ROLE[Permission.EDIT_LIVE]),
    }
)


def transitions_from(state: StateName) -> tuple[StateName, ...]:
    """List the states that can follow."""
    return tuple(after for before, after in _STEPS if before is state)


def mode_of_transition(
    before: StateName, after: StateName, who: Actor, *, four_eyes: bool, own: bool = False
) -> ChangeMode:
    """Decide how a change of state proceeds. `own`: the user wrote the draft.

    Raises RequestRefused if the lifecycle lacks the step, or if the role may not even request it.
    """
    step = _STEPS.get((before, after))
    if step is None:
        possible = ", ".join(transitions_from(before)) or "none"
        raise RequestRefused(f"a rule in state {before} cannot become {after}; possible next states: {possible}")
    return _course(step, who, four_eyes, own)


def mode_of_edit(state: StateName, who: Actor, *, four_eyes: bool) -> ChangeMode:
    """Decide how an edit or a rollback of a rule in this state proceeds. Raises RequestRefused."""
    edit = _EDITS.get(state)
    if edit is None:
        raise RequestRefused("a deleted rule cannot be edited: create a new rule with the same id")
    return _course(edit, who, four_eyes, own=False)


def check_decision(who: Actor, requested_by: str, contributors: Collection[str], *, four_eyes: bool) -> None:
    """Raise RequestRefused if this user may not approve the request: the role is too low, or four eyes are required and
    the user requested the change or is one of the `contributors`, who changed the document, or a list or map that it
    names, since its last approval.
    """
    least = LEAST_ROLE[Permission.DECIDE]
    if not who.role.includes(least):
        raise RequestRefused(f"this needs the role {least}; your role is {who.role}", forbidden=True)
    if four_eyes and not is_second_person(who.user, requested_by, contributors):
        part = "requested the change"
        if who.user != requested_by:
            part = "changed the rule, or a list or map that it names, since the last approval"
        raise RequestRefused(
            f"a second person must decide, because you {part}", forbidden=True, cause=RefusalCause.SECOND_PERSON
        )


def is_second_person(user: str, requested_by: str, contributors: Collection[str]) -> bool:
    """Whether a user neither requested a change nor wrote any part of it."""
    return user != requested_by and user not in contributors


def _course(step: _Step, who: Actor, four_eyes: bool, own: bool) -> ChangeMode:
    least = step.own if own and step.own is not None else step.least
    if who.role.includes(least):
        return ChangeMode.REQUEST if step.weighty and four_eyes else ChangeMode.NOW
    # A request can only cover a step that an approver may take, never one that needs an admin.
    if least is _APPROVER and who.role.includes(LEAST_ROLE[Permission.REQUEST]):
        return ChangeMode.REQUEST
    raise RequestRefused(f"this needs the role {least}; your role is {who.role}", forbidden=True)
