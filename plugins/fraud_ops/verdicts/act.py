"""Derives the next action from a verdict. Pure. The only way to carry out an action is to append an intent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fraud_ops.verdicts.health import Health, Verdict
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_rules.deploy.intent import IntentKind
from fraud_rules.deploy.plan import Outlook
from fraud_rules.deploy.release import Release, fingerprint

__all__ = ["Act", "Action", "Step", "asked_by", "next_step", "step_to_deploy"]


class Action(StrEnum):
    """A request of a person or a supervisor."""

    START = "start"
    DRAIN = "drain"
    RESTART = "restart"
    ROLL_BACK = "roll back"
    REBUILD = "rebuild"


_DEPLOYED = f"{Action.START} by "


class Act(StrEnum):
    """The kinds of action that a supervisor can take."""

    NOTHING = "nothing"
    WAIT = "wait"
    START = "start"
    ROLL_BACK = "roll back"


@dataclass(frozen=True, slots=True)
class Step:
    """An action with its reason. START and ROLL_BACK run `release`."""

    act: Act
    reason: str
    release: Release | None = None

    def __str__(self) -> str:
        return f"{self.act}: {self.reason}"


_REPAIRED_BY_A_START = frozenset({Health.DEAD, Health.STALLED, Health.DISK_FULL})
"""A start does not cure other verdicts, such as a damaged checkpoint, a second supervisor or a silent agent."""


def next_step(seen: DetectorObservation, verdict: Verdict, outlook: Outlook, now_ms: int) -> Step:
    """The supervisor's action for a verdict: start the detector again after growing pauses, and after too many failures
    return to the last release that worked."""
    effective = seen.effective
    if verdict.health not in _REPAIRED_BY_A_START or effective is None or effective.intent.release is None:
        return Step(Act.NOTHING, str(verdict))
    if outlook.roll_back_to is not None:
        back = fingerprint(outlook.roll_back_to)
        failed = f"{outlook.failed_starts} failed starts in a row"
        return Step(Act.ROLL_BACK, f"{failed}, rolling back to {back}: {verdict}", outlook.roll_back_to)
    if now_ms < outlook.due_ms:
        return Step(Act.WAIT, f"{outlook.failed_starts} failed starts in a row: {verdict}")
    return Step(Act.START, str(verdict), effective.intent.release)


def step_to_deploy(seen: DetectorObservation, verdict: Verdict, declared: Release) -> Step:
    """The action that makes the detector run the declared release.

    The action is NOTHING if the detector runs that release already or is drained. It is also NOTHING if the release was
    deployed before and a person rolled it back, or an agent refused it. Then the declaration must change first, or a
    person must request the start.
    """
    if verdict.health in (Health.BROKER_DOWN, Health.DUPLICATE):
        return Step(Act.NOTHING, str(verdict))
    mark = fingerprint(declared)
    wanted = seen.wanted
    if wanted is None:
        return Step(Act.START, f"first start, with release {mark}", declared)
    if wanted.intent.kind is IntentKind.DRAIN or verdict.health is Health.STOPPED:
        return Step(Act.NOTHING, str(verdict))
    if wanted.intent.fingerprint == mark:
        return Step(Act.NOTHING, f"release {mark} is already requested: {verdict}")
    if _last_deployed(seen) == mark:
        return Step(Act.NOTHING, f"release {mark} is declared, but its last deployment failed; change the declaration")
    return Step(Act.START, f"release {mark} is declared, {wanted.intent.fingerprint} was requested before", declared)


def asked_by(action: Action, person: str) -> str:
    """The text for `Intent.requested_by`: the action and the person who requested it."""
    return f"{action} by {person}"


def _last_deployed(seen: DetectorObservation) -> str | None:
    """The fingerprint of the release that the last deployment started; None before the first one."""
    deployed = [record for record in seen.intents.valid if record.intent.requested_by.startswith(_DEPLOYED)]
    return deployed[-1].intent.fingerprint if deployed else None
