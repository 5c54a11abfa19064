"""What follows from a verdict: pure. A step is carried out by appending an intent, and nothing else."""

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
    """What a person, or a supervisor, asks for."""

    START = "start"
    DRAIN = "drain"
    RESTART = "restart"
    ROLL_BACK = "roll back"
    REBUILD = "rebuild"


_DEPLOYED = f"{Action.START} by "


class Act(StrEnum):
    """What can be done about a detector."""

    NOTHING = "nothing"
    WAIT = "wait"
    START = "start"
    ROLL_BACK = "roll back"


@dataclass(frozen=True, slots=True)
class Step:
    """`release` is what to run for START and ROLL_BACK."""

    act: Act
    reason: str
    release: Release | None = None

    def __str__(self) -> str:
        return f"{self.act}: {self.reason}"


_REPAIRED_BY_A_START = frozenset({Health.DEAD, Health.STALLED, Health.DISK_FULL})
"""All else is either well, or made no better by a start: a damaged checkpoint, a rival, a silent agent, no broker."""


def next_step(seen: DetectorObservation, verdict: Verdict, outlook: Outlook, now_ms: int) -> Step:
    """What a supervisor does about a verdict: start again with growing pauses, and after too many failures go back to
    what is known to work."""
    effective = seen.effective
    if verdict.health not in _REPAIRED_BY_A_START or effective is None or effective.intent.release is None:
        return Step(Act.NOTHING, str(verdict))
    if outlook.roll_back_to is not None:
        back = fingerprint(outlook.roll_back_to)
        failed = f"{outlook.failed_starts} failed starts in a row"
        return Step(Act.ROLL_BACK, f"{failed}, back to {back}: {verdict}", outlook.roll_back_to)
    if now_ms < outlook.due_ms:
        return Step(Act.WAIT, f"{outlook.failed_starts} failed starts in a row: {verdict}")
    return Step(Act.START, str(verdict), effective.intent.release)


def step_to_deploy(seen: DetectorObservation, verdict: Verdict, declared: Release) -> Step:
    """What makes a detector run what is declared: nothing where it does, or is held stopped.

    Also nothing where that was deployed before and somebody has gone back from it, or an agent has refused it: what is
    declared has to change first, or a person to ask for it by hand.
    """
    if verdict.health in (Health.BROKER_DOWN, Health.DUPLICATE):
        return Step(Act.NOTHING, str(verdict))
    mark = fingerprint(declared)
    wanted = seen.wanted
    if wanted is None:
        return Step(Act.START, f"the first start, as {mark}", declared)
    if wanted.intent.kind is IntentKind.DRAIN or verdict.health is Health.STOPPED:
        return Step(Act.NOTHING, str(verdict))
    if wanted.intent.fingerprint == mark:
        return Step(Act.NOTHING, f"{mark} is what is asked for: {verdict}")
    if _last_deployed(seen) == mark:
        return Step(Act.NOTHING, f"{mark} is declared, was deployed, and did not stay; nothing of it has changed since")
    return Step(Act.START, f"{mark} is declared, and {wanted.intent.fingerprint} was asked for", declared)


def asked_by(action: Action, person: str) -> str:
    """Who asked for an intent, and for what, as it is kept with it."""
    return f"{action} by {person}"


def _last_deployed(seen: DetectorObservation) -> str | None:
    """The release that was declared when one was deployed last."""
    deployed = [record for record in seen.intents.valid if record.intent.requested_by.startswith(_DEPLOYED)]
    return deployed[-1].intent.fingerprint if deployed else None
