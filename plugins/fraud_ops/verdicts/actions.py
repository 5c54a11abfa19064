"""Derives the next action from a verdict, as pure functions. An action takes effect only as an appended intent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fraud_ops.verdicts.observation import DetectorObservation
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.deploy.intent import IntentKind
from fraud_rules.deploy.plan import Outlook
from fraud_rules.deploy.release import Release, fingerprint


class OperatorRequest(StrEnum):
    """The kinds of request in `Intent.requested_by`. A DAG run that deploys also uses START."""

    START = "start"
    DRAIN = "drain"
    RESTART = "restart"
    ROLL_BACK = "roll back"
    REBUILD = "rebuild"


_DEPLOYED = f"{OperatorRequest.START} by "


class ActionKind(StrEnum):
    """The kinds of action that a supervisor can take."""

    NOTHING = "nothing"
    WAIT = "wait"
    START = "start"
    ROLL_BACK = "roll back"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class SupervisorAction:
    """An action with its reason. START and ROLL_BACK run `release`."""

    kind: ActionKind
    reason: str
    release: Release | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


_REPAIRABLE = frozenset({Health.DEAD, Health.STALLED, Health.DISK_FULL})
"""The verdicts that a new start can repair. It cannot repair, for example, a damaged checkpoint or a silent agent."""


def next_action(observation: DetectorObservation, verdict: Verdict, outlook: Outlook, now_ms: int) -> SupervisorAction:
    """The supervisor's action for a verdict. The supervisor starts the detector again, with longer pauses after each
    failure. After too many failures, it returns to the last release that worked."""
    effective = observation.effective_intent
    if verdict.health not in _REPAIRABLE or effective is None or effective.intent.release is None:
        return SupervisorAction(ActionKind.NOTHING, str(verdict))
    if outlook.roll_back_to is not None:
        back = fingerprint(outlook.roll_back_to)
        failed = f"{outlook.failed_starts} failed starts in a row"
        return SupervisorAction(
            ActionKind.ROLL_BACK, f"{failed}, rolling back to {back}: {verdict}", outlook.roll_back_to
        )
    if now_ms < outlook.due_ms:
        return SupervisorAction(ActionKind.WAIT, f"{outlook.failed_starts} failed starts in a row: {verdict}")
    return SupervisorAction(ActionKind.START, str(verdict), effective.intent.release)


def action_to_deploy(observation: DetectorObservation, verdict: Verdict, declared: Release) -> SupervisorAction:
    """The action that makes the detector run the declared release.

    The log of intents orders the releases: code that another deployment has replaced is earlier code. The action is
    REFUSE for it, because this host may lack an upgrade that other hosts have. Only a person starts it again.
    The action is NOTHING if the newest intent requests that release already, or a drain. It is also NOTHING if another
    release has replaced the declared one since its deployment, for example by a roll back. Then the declaration must
    change first, or a person must request the start.
    """
    if verdict.health in (Health.BROKER_DOWN, Health.DUPLICATE):
        return SupervisorAction(ActionKind.NOTHING, str(verdict))
    fingerprint_declared = fingerprint(declared)
    newest = observation.newest_intent
    if newest is None:
        return SupervisorAction(ActionKind.START, f"first start, with release {fingerprint_declared}", declared)
    if newest.intent.kind is IntentKind.DRAIN or verdict.health is Health.STOPPED:
        return SupervisorAction(ActionKind.NOTHING, str(verdict))
    if newest.intent.fingerprint == fingerprint_declared:
        return SupervisorAction(ActionKind.NOTHING, f"release {fingerprint_declared} is already requested: {verdict}")
    if _last_deployed(observation) == fingerprint_declared:
        return SupervisorAction(
            ActionKind.NOTHING,
            f"release {fingerprint_declared} was replaced after its last deployment; change the declaration",
        )
    if _was_replaced(observation, declared.code):
        return SupervisorAction(
            ActionKind.REFUSE,
            f"release {fingerprint_declared} has the code {declared.code}, which another deployment has replaced",
        )
    return SupervisorAction(
        ActionKind.START, f"release {fingerprint_declared} replaces {newest.intent.fingerprint}", declared
    )


def request_text(action: OperatorRequest, person: str) -> str:
    """The text for `Intent.requested_by`: the action and the person who requested it."""
    return f"{action} by {person}"


def _was_replaced(observation: DetectorObservation, code: str) -> bool:
    """Whether a deployment has started this code, and a later one other code."""
    deployed = [release.code for release in _deployed(observation)]
    return code in deployed and deployed[-1] != code


def _last_deployed(observation: DetectorObservation) -> str | None:
    """The fingerprint of the release that the last deployment started; None before the first one."""
    deployed = _deployed(observation)
    return fingerprint(deployed[-1]) if deployed else None


def _deployed(observation: DetectorObservation) -> Sequence[Release]:
    """The releases that deployments and persons started, in their order."""
    starts = (each.intent for each in observation.intents.valid if each.intent.requested_by.startswith(_DEPLOYED))
    return [intent.release for intent in starts if intent.release is not None]
