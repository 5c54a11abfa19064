"""What a person asks for, as an intent: which release, and with what leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fraud_ops.verdicts.act import Action
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_rules.deploy.intent import IntentRecord, Rebuild
from fraud_rules.deploy.release import Release, fingerprint
from fraud_rules.errors import ConfigError

if TYPE_CHECKING:
    from fraud_ops.hooks.detector import FraudDetectorHook

__all__ = ["PROVEN_BATCHES", "decide", "last_release", "release_before"]

PROVEN_BATCHES = 10
"""Batches a release must have committed to be one to go back to."""


def decide(
    hook: FraudDetectorHook,
    seen: DetectorObservation,
    action: Action,
    reason: str,
    requested_by: str,
    *,
    partial: bool = False,
    accept_loss: bool = False,
) -> IntentRecord:
    """Append the intent for an action. Raises ConfigError where there is nothing to act on, BrokerUnavailable,
    Superseded.

    A start takes what is declared, and lifts a stop of the rule log; the others take what ran last. `partial` accepts a
    rebuild from a topic that has lost its beginning. `accept_loss` goes on without transactions that are gone before
    the detector read them.
    """
    match action:
        case Action.START:
            return hook.run(seen, hook.declared(), reason, requested_by, resume=True, accept_loss=accept_loss)
        case Action.DRAIN:
            return hook.drain(seen, reason, requested_by)
        case Action.RESTART:
            return hook.run(seen, last_release(seen), reason, requested_by, accept_loss=accept_loss)
        case Action.ROLL_BACK:
            return hook.run(seen, release_before(seen), reason, requested_by, accept_loss=accept_loss)
        case Action.REBUILD:
            rebuild = Rebuild(partial=partial)
            return hook.run(seen, hook.declared(), reason, requested_by, rebuild=rebuild, accept_loss=accept_loss)


def last_release(seen: DetectorObservation) -> Release:
    """The release that was asked for last. Raises ConfigError."""
    for record in reversed(seen.intents.valid):
        if record.intent.release is not None:
            return record.intent.release
    raise ConfigError("nothing has ever run here: start it first")


def release_before(seen: DetectorObservation) -> Release:
    """The newest release other than the last that has proven itself. Raises ConfigError when there is none."""
    last = fingerprint(last_release(seen))
    for record in reversed(seen.intents.valid):
        attempt = seen.deployment.attempts.get(record.intent.attempt_id)
        proven = attempt is not None and attempt.status.batches_committed >= PROVEN_BATCHES
        if record.intent.release is not None and record.intent.fingerprint != last and proven:
            return record.intent.release
    raise ConfigError(
        f"no release before {last} has committed {PROVEN_BATCHES} batches: there is nothing to go back to"
    )
