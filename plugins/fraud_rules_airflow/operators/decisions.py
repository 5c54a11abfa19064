"""Turns a person's request into an intent: the release to run, and the permissions of that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fraud_ops.verdicts.actions import OperatorRequest
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_rules.deploy.intent import IntentRecord, Rebuild
from fraud_rules.deploy.release import Release, fingerprint
from fraud_rules.errors import ConfigError

if TYPE_CHECKING:
    from fraud_rules_airflow.hooks.detector import FraudDetectorHook

PROVEN_BATCHES = 10
"""A rollback needs a release that has committed this number of batches."""


def decide(
    hook: FraudDetectorHook,
    observation: DetectorObservation,
    action: OperatorRequest,
    reason: str,
    requested_by: str,
    *,
    partial: bool = False,
    accept_loss: bool = False,
) -> IntentRecord:
    """Append the intent for an action. Raises ConfigError if no suitable release exists, BrokerUnavailable, Superseded,
    IntentForged.

    START and REBUILD run the declared release, and START also lifts a stop by the rule log. RESTART runs the last
    requested release. `partial` accepts a rebuild from a topic that has lost its beginning. `accept_loss` lets the
    detector continue without transactions that retention removed before the detector read them.
    """
    match action:
        case OperatorRequest.START:
            release = hook.declared_release()
            return hook.request_run(
                observation, release, reason, requested_by, declared=True, resume=True, accept_loss=accept_loss
            )
        case OperatorRequest.DRAIN:
            return hook.request_drain(observation, reason, requested_by)
        case OperatorRequest.RESTART:
            return hook.request_run(
                observation, last_release(observation), reason, requested_by, accept_loss=accept_loss
            )
        case OperatorRequest.ROLL_BACK:
            return hook.request_run(
                observation, release_before(observation), reason, requested_by, accept_loss=accept_loss
            )
        case OperatorRequest.REBUILD:
            release, order = hook.declared_release(), Rebuild(partial=partial)
            return hook.request_run(
                observation, release, reason, requested_by, declared=True, rebuild=order, accept_loss=accept_loss
            )


def last_release(observation: DetectorObservation) -> Release:
    """The last requested release. Raises ConfigError if there is none."""
    for record in reversed(observation.intents.valid):
        if record.intent.release is not None:
            return record.intent.release
    raise ConfigError("the detector has never run in this installation: start it first")


def release_before(observation: DetectorObservation) -> Release:
    """The newest release before the last one that has proven itself. Raises ConfigError if there is none."""
    last = fingerprint(last_release(observation))
    for record in reversed(observation.intents.valid):
        attempt = observation.deployment.attempts.get(record.intent.attempt_id)
        proven = attempt is not None and attempt.status.batches_committed >= PROVEN_BATCHES
        if record.intent.release is not None and record.intent.fingerprint != last and proven:
            return record.intent.release
    raise ConfigError(f"no release before {last} has committed {PROVEN_BATCHES} batches: a rollback is not possible")
