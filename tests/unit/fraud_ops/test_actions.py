"""The actions that follow from verdicts and requests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from fraud_ops.verdicts.actions import ActionKind, action_to_deploy, next_action
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.until import Outcome, Until, outcome
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.attempt import AttemptPhase as Phase
from fraud_rules.deploy.plan import Outlook, outlook
from fraud_rules.errors import ConfigError
from fraud_rules_airflow.operators.decisions import release_before
from tests.support.operations.observations import NOW_MS, World, ms_ago, release, running

A, B = release("key_groups: 16"), release("key_groups: 32")
AT_ONCE = Outlook(0, 0, alarm=False, roll_back_to=None)
ASKED = World().asked(A)
DEAD = ASKED.said(Phase.FAILED, exit_code=-9, batches_committed=50)

SUPERVISE = {
    "well": (running(), AT_ONCE, ActionKind.NOTHING),
    "dead": (DEAD, AT_ONCE, ActionKind.START),
    "dead, after a forged drain": (
        DEAD.asked(None).said(Phase.REFUSED, error_name="IntentForged"),
        AT_ONCE,
        ActionKind.START,
    ),
    "hangs": (running(ago_s=90).wrote(ago_s=60), AT_ONCE, ActionKind.START),
    "falls behind": (running().wrote(ago_s=1, lag=200_000), AT_ONCE, ActionKind.NOTHING),
    "dead, and failed before": (DEAD, Outlook(2, NOW_MS + 1, alarm=False, roll_back_to=None), ActionKind.WAIT),
    "dead, and waited long enough": (DEAD, Outlook(2, NOW_MS, alarm=False, roll_back_to=None), ActionKind.START),
    "dead too often": (DEAD, Outlook(5, NOW_MS + 9, alarm=True, roll_back_to=B), ActionKind.ROLL_BACK),
    "a damaged checkpoint": (ASKED.said(Phase.FAILED, error_name="CheckpointDamaged"), AT_ONCE, ActionKind.NOTHING),
    "a foreign checkpoint": (ASKED.said(Phase.FAILED, error_name="CheckpointForeign"), AT_ONCE, ActionKind.NOTHING),
    "taken over from": (ASKED.said(Phase.FAILED, error_name="Fenced"), AT_ONCE, ActionKind.NOTHING),
    "suspended in a transaction": (
        ASKED.said(Phase.FAILED, error_name="TransactionExpired"),
        AT_ONCE,
        ActionKind.START,
    ),
    "a silent agent": (replace(running(), agent_age_s=99), AT_ONCE, ActionKind.NOTHING),
    "stopped by the rule log": (ASKED.said(Phase.STOPPED, error_name="DetectorStopped"), AT_ONCE, ActionKind.NOTHING),
    "drained": (running().said(Phase.STOPPED).asked(None).said(Phase.STOPPED, ago_s=1), AT_ONCE, ActionKind.NOTHING),
    "nothing ever": (World(), AT_ONCE, ActionKind.NOTHING),
}

DEPLOY = {
    "nothing ever": (World(), ActionKind.START),
    "the declared release runs": (World().asked(B).said(Phase.RUNNING).wrote(ago_s=1), ActionKind.NOTHING),
    "another release runs": (running(), ActionKind.START),
    "another release died": (DEAD, ActionKind.START),
    "drained": (running().said(Phase.STOPPED).asked(None).said(Phase.STOPPED, ago_s=1), ActionKind.NOTHING),
    "drained, then started by hand": (
        running().said(Phase.STOPPED).asked(None).said(Phase.STOPPED, ago_s=20), ActionKind.NOTHING,
    ),
    "stopped by the rule log": (ASKED.said(Phase.STOPPED, error_name="DetectorStopped"), ActionKind.NOTHING),
    "another release runs, after a forged drain": (
        running().asked(None).said(Phase.REFUSED, error_name="IntentForged"), ActionKind.START,
    ),
    "it was refused, and nothing has changed": (running(ago_s=99).asked(B).said(Phase.REFUSED), ActionKind.NOTHING),
    "a user rolled it back": (
        running().asked(B).asked(A, by="roll back by ann").said(Phase.RUNNING).wrote(ago_s=1), ActionKind.NOTHING,
    ),
    "the supervisor rolled it back": (
        running().asked(B).asked(A, by="supervisor").said(Phase.RUNNING).wrote(ago_s=1), ActionKind.NOTHING,
    ),
    "declared again later": (running().asked(B).asked(A).said(Phase.RUNNING).wrote(ago_s=1), ActionKind.START),
    "another Airflow decides too": (running().supervisor(1, "http://there"), ActionKind.NOTHING),
}  # fmt: skip


@pytest.mark.parametrize(("world", "ahead", "expected"), SUPERVISE.values(), ids=SUPERVISE.keys())
def test_what_a_supervisor_does(world: World, ahead: Outlook, expected: ActionKind) -> None:
    verdict = assess_detector(world.seen, HealthSettings(), NOW_MS)
    step = next_action(world.seen, verdict, ahead, NOW_MS)
    assert step.kind is expected, step
    wanted = {ActionKind.START: A, ActionKind.ROLL_BACK: B}.get(expected)
    assert step.release == wanted
    assert verdict.reasons[0] in step.reason


@pytest.mark.parametrize(("world", "expected"), DEPLOY.values(), ids=DEPLOY.keys())
def test_what_a_deployment_does(world: World, expected: ActionKind) -> None:
    step = action_to_deploy(world.seen, assess_detector(world.seen, HealthSettings(), NOW_MS, "http://here"), B)
    assert step.kind is expected, step
    assert (step.release == B) is (expected is ActionKind.START)


def test_of_alternating_hosts_with_old_and_new_code_only_the_new_code_is_started_once() -> None:
    old, new = structs.replace(A, code="01d"), structs.replace(A, code="ef0")
    world, started = World().asked(old).said(Phase.RUNNING).wrote(ago_s=1), []
    for declared in (old, new, old, new, structs.replace(old, settings="key_groups: 32"), new):
        step = action_to_deploy(world.seen, assess_detector(world.seen, HealthSettings(), NOW_MS), declared)
        if step.release is not None:
            started.append(step.release.code)
            world = world.asked(step.release).said(Phase.RUNNING).wrote(ago_s=1)
        assert (step.kind is ActionKind.REFUSE) is (declared.code == "01d" and "ef0" in started)
    assert started == ["ef0"]


def test_only_a_person_returns_to_earlier_code() -> None:
    old, new = structs.replace(A, code="01d"), structs.replace(A, code="ef0")
    world = World().asked(old).asked(new).asked(old, by="start by ann").said(Phase.RUNNING).wrote(ago_s=1)
    verdict = assess_detector(world.seen, HealthSettings(), NOW_MS)
    assert action_to_deploy(world.seen, verdict, old).kind is ActionKind.NOTHING
    assert action_to_deploy(world.seen, verdict, new).kind is ActionKind.REFUSE
    assert action_to_deploy(world.seen, verdict, structs.replace(A, code="ef1")).kind is ActionKind.START


def test_pauses_grow_until_the_rollback() -> None:
    """A release that worked, then one that never starts: each failure waits longer, and the fifth goes back."""
    world = running().said(Phase.STOPPED, batches_committed=100)
    acts = []
    for tries in range(1, 6):
        world = world.asked(B, ago_s=10).said(Phase.FAILED, exit_code=14, ago_s=10 * tries)
        verdict = assess_detector(world.seen, HealthSettings(), NOW_MS)
        acts.append(
            next_action(world.seen, verdict, outlook(world.seen.intents, world.seen.deployment, NOW_MS), NOW_MS)
        )
    assert [step.kind for step in acts] == [
        ActionKind.START,
        ActionKind.START,
        ActionKind.START,
        ActionKind.START,
        ActionKind.ROLL_BACK,
    ]
    assert acts[-1].release == A
    fresh = world.said(Phase.FAILED, exit_code=14, ago_s=0, epoch=5)
    wait = outlook(fresh.seen.intents, fresh.seen.deployment, NOW_MS)
    assert wait.due_ms > ms_ago(0)


def test_only_a_proven_release_is_a_rollback_target() -> None:
    world = running().said(Phase.STOPPED, batches_committed=9).asked(B).said(Phase.RUNNING, batches_committed=9)
    with pytest.raises(ConfigError, match="a rollback is not possible"):
        release_before(world.seen)
    assert release_before(world.said(Phase.STOPPED, batches_committed=10, epoch=0).seen) == A


UNTIL = {
    "not executed": (Until.EXECUTED, ASKED, None),
    "accepted only": (Until.EXECUTED, ASKED.said(Phase.ACCEPTED), None),
    "executed": (Until.EXECUTED, ASKED.said(Phase.STARTING), True),
    "refused": (Until.EXECUTED, ASKED.said(Phase.REFUSED, error_name="ConfigError", message="x"), False),
    "starting": (Until.HEALTHY, ASKED.said(Phase.STARTING), None),
    "healthy": (Until.HEALTHY, running(), True),
    "healthy but blind": (Until.HEALTHY, running().read(0, quarantined=100), True),
    "died instead": (Until.HEALTHY, DEAD, False),
    "draining": (Until.STOPPED, running().asked(None).said(Phase.DRAINING), None),
}


@pytest.mark.parametrize(("until", "world", "reached"), UNTIL.values(), ids=UNTIL.keys())
def test_a_wait_has_an_outcome(until: Until, world: World, reached: bool | None) -> None:
    ended = outcome(until, world.seen.intents.epoch, world.seen, assess_detector(world.seen, HealthSettings(), NOW_MS))
    assert (None if ended is None else ended.reached) is reached
    if ended is not None:
        assert Outcome.of(ended.as_dict()) == ended


def test_a_later_intent_ends_the_wait() -> None:
    world = running().asked(B)
    ended = outcome(Until.HEALTHY, 0, world.seen, assess_detector(world.seen, HealthSettings(), NOW_MS))
    assert ended is not None
    assert not ended.reached
    assert "superseded by" in ended.said
