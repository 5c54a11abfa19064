"""The lifecycle of a rule: DRAFT -> SHADOW -> ACTIVE <-> PAUSE -> DELETE, and who may take which step. Pure.

A draft is known to the store alone. Whatever takes effect on payments that are held (to become active, to change or to
resume what is active) may need a second person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from fraud_ops.control_plane.errors import Refused
from fraud_ops.control_plane.roles import LEAST_ROLE, Actor, Permission, Role

__all__ = ["Course", "State", "check_decision", "course_of_edit", "course_of_step", "steps_from"]


class State(StrEnum):
    """Where a rule is. All but DRAFT are `ruleState`s of the rule log."""

    DRAFT = "DRAFT"
    SHADOW = "SHADOW"
    ACTIVE = "ACTIVE"
    PAUSE = "PAUSE"
    DELETE = "DELETE"

    @property
    def in_log(self) -> bool:
        """Whether the rule log holds a rule in force in this state."""
        return self in (State.SHADOW, State.ACTIVE, State.PAUSE)


class Course(StrEnum):
    """What becomes of something asked for: done at once, or kept until somebody approves it."""

    NOW = "now"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class _Step:
    """`least` may take it alone unless it is `weighty` and four eyes are asked for; an `own` draft's author needs
    less.
    """

    least: Role
    weighty: bool = False
    own: Role | None = None


_APPROVER = LEAST_ROLE[Permission.ACTIVATE]
_ANALYST = LEAST_ROLE[Permission.SHADOW]

_STEPS: Final[Mapping[tuple[State, State], _Step]] = MappingProxyType(
    {
        (State.DRAFT, State.SHADOW): _Step(_ANALYST),
        (State.DRAFT, State.ACTIVE): _Step(Role.ADMIN, weighty=True),
        (State.DRAFT, State.DELETE): _Step(_APPROVER, own=_ANALYST),
        (State.SHADOW, State.ACTIVE): _Step(_APPROVER, weighty=True),
        (State.SHADOW, State.DELETE): _Step(_ANALYST),
        (State.ACTIVE, State.PAUSE): _Step(LEAST_ROLE[Permission.PAUSE]),
        (State.ACTIVE, State.SHADOW): _Step(LEAST_ROLE[Permission.PAUSE]),
        (State.ACTIVE, State.DELETE): _Step(LEAST_ROLE[Permission.DELETE]),
        (State.PAUSE, State.ACTIVE): _Step(_APPROVER, weighty=True),
        (State.PAUSE, State.SHADOW): _Step(_APPROVER),
        (State.PAUSE, State.DELETE): _Step(LEAST_ROLE[Permission.DELETE]),
    }
)

_EDITS: Final[Mapping[State, _Step]] = MappingProxyType(
    {
        State.DRAFT: _Step(LEAST_ROLE[Permission.DRAFT]),
        State.SHADOW: _Step(LEAST_ROLE[Permission.DRAFT]),
        State.ACTIVE: _Step(LEAST_ROLE[Permission.EDIT_LIVE], weighty=True),
        State.PAUSE: _Step(LEAST_ROLE[Permission.EDIT_LIVE]),
    }
)


def steps_from(state: State) -> tuple[State, ...]:
    """The states that can follow."""
    return tuple(after for before, after in _STEPS if before is state)


def course_of_step(before: State, after: State, who: Actor, *, four_eyes: bool, own: bool = False) -> Course:
    """What becomes of a wish to move a rule; `own`: who asks wrote the draft.

    Raises Refused for a step there is none of, or a role that may not even ask for it.
    """
    step = _STEPS.get((before, after))
    if step is None:
        possible = ", ".join(steps_from(before)) or "nothing"
        raise Refused(f"a rule in {before} cannot become {after}: what can follow is {possible}")
    return _course(step, who, four_eyes, own)


def course_of_edit(state: State, who: Actor, *, four_eyes: bool) -> Course:
    """What becomes of a new document, or an old one brought back, for a rule in this state. Raises Refused."""
    edit = _EDITS.get(state)
    if edit is None:
        raise Refused("a deleted rule cannot be edited: create it anew under its id")
    return _course(edit, who, four_eyes, own=False)


def check_decision(who: Actor, requested_by: str, author: str, *, four_eyes: bool) -> None:
    """Raise Refused when this person may not approve: too small a role, or, with four eyes, a hand of their own in
    it.
    """
    least = LEAST_ROLE[Permission.DECIDE]
    if not who.role.includes(least):
        raise Refused(f"this needs the role {least}, and yours is {who.role}", forbidden=True)
    if four_eyes and who.user in (requested_by, author):
        part = "asked for it" if who.user == requested_by else "wrote the rule"
        raise Refused(f"a second person must decide: you {part}", forbidden=True)


def _course(step: _Step, who: Actor, four_eyes: bool, own: bool) -> Course:
    least = step.own if own and step.own is not None else step.least
    if who.role.includes(least):
        return Course.REQUEST if step.weighty and four_eyes else Course.NOW
    # Whoever may ask at all may ask for what an approver can grant; what only an admin may do is not asked for.
    if least is _APPROVER and who.role.includes(LEAST_ROLE[Permission.REQUEST]):
        return Course.REQUEST
    raise Refused(f"this needs the role {least}, and yours is {who.role}", forbidden=True)
