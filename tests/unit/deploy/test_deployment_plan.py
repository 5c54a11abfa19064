"""The outlook after past attempts. A story has one word per attempt: its release, its end, and its batches."""

from __future__ import annotations

import msgspec
import pytest

from fraud_rules.deploy.attempt import Attempt, AttemptPhase, AttemptStatus, DeploymentReports
from fraud_rules.deploy.intent import NO_EPOCH, Intent, IntentKind, IntentLog, read_intents
from fraud_rules.deploy.plan import PlanLimits, outlook
from fraud_rules.deploy.work import Work, WorkPhase
from tests.support.deployments import RELEASE, records_of

PHASES = {
    "failed": AttemptPhase.FAILED,
    "lost": AttemptPhase.LOST,
    "refused": AttemptPhase.REFUSED,
    "stopped": AttemptPhase.STOPPED,
    "runs": AttemptPhase.RUNNING,
    "superseded": AttemptPhase.SUPERSEDED,
    "slow": AttemptPhase.FAILED,
    "stuck": AttemptPhase.FAILED,
}
STALLED = {"slow": 1_000, "stuck": 0}
"""Starts that were ended because they made no progress any more: by the events they had restored until then."""

STEP_MS = 1_000_000
LIMITS = PlanLimits(first_wait_ms=5_000, longest_wait_ms=30_000, alarm_after=2, roll_back_after=3)


def parse_story(story: str) -> tuple[IntentLog, DeploymentReports]:
    """`A:failed:0` is an attempt at release A; `drain` a drain; `A:unseen` an intent no agent has read yet."""
    intents: list[Intent] = []
    attempts = {}
    for epoch, word in enumerate(story.split()):
        name, _, rest = word.partition(":")
        phase, _, batches = rest.partition(":")
        kind = IntentKind.DRAIN if name == "drain" else IntentKind.RUN
        release = None if name == "drain" else msgspec.structs.replace(RELEASE, code=name)
        intent = Intent("cards", kind, f"a{epoch}", epoch - 1 if epoch else NO_EPOCH, "", "", "", 0, release)
        intents.append(intent)
        if phase in PHASES:
            status = AttemptStatus(
                "cards", f"a{epoch}", epoch, PHASES[phase], 0, "agent", "host", batches_committed=int(batches or 0)
            )
            if phase in STALLED:
                work = Work(WorkPhase.STATE, 0, 0, STALLED[phase], None, "events")
                status = msgspec.structs.replace(status, error_name="Stalled", work=work)
            attempts[f"a{epoch}"] = Attempt(epoch * STEP_MS, status)
    return read_intents("cards", records_of(intents, STEP_MS)), DeploymentReports(attempts)


@pytest.mark.parametrize(
    ("story", "failed_starts", "waits_ms", "alarm", "back_to"),
    [
        ("", 0, None, False, None),
        ("A:unseen", 0, None, False, None),
        ("A:runs:500", 0, None, False, None),
        ("A:failed:500", 0, None, False, None),  # it ran well before it died: at once
        ("A:failed:9", 1, 5_000, False, None),
        ("A:refused", 1, 5_000, False, None),
        ("A:lost", 1, 5_000, False, None),
        ("A:failed A:failed", 2, 10_000, True, None),
        ("A:failed A:failed A:failed", 3, 20_000, True, None),  # nothing to go back to
        ("A:failed A:failed A:failed A:failed A:failed", 5, 30_000, True, None),
        ("A:failed A:failed A:unseen", 2, 10_000, True, None),  # the next has not begun
        ("A:failed A:failed A:runs:3", 2, 10_000, True, None),  # not proven yet
        ("A:failed A:failed A:runs:10", 0, None, False, None),
        ("A:failed A:superseded A:failed", 2, 10_000, True, None),
        ("A:failed A:failed drain A:failed", 1, 5_000, False, None),
        ("A:runs:50 B:failed B:failed", 2, 10_000, True, None),
        ("A:stopped:50 B:failed B:failed B:failed", 3, 20_000, True, "A"),
        ("A:stopped:9 B:failed B:failed B:failed", 3, 20_000, True, None),
        ("A:stopped:50 B:stopped:60 C:failed C:failed C:failed", 3, 20_000, True, "B"),
        ("A:stopped:50 B:stopped:60 B:failed A:stopped:3 C:failed C:failed C:failed", 3, 20_000, True, "A"),
        # a start that did restore something is slow: longer limits and an alarm, and no other release
        ("A:stopped:50 B:stuck B:stuck B:stuck", 3, 20_000, True, "A"),
        ("A:stopped:50 B:slow B:slow B:slow", 3, 20_000, True, None),
        ("A:stopped:50 B:stuck B:slow B:stuck B:stuck", 4, 30_000, True, "A"),
        # gone back to A, which fails too: not to and fro for ever
        ("A:stopped:50 B:failed B:failed B:failed A:failed A:failed A:failed", 3, 20_000, True, None),
    ],
)
def test_outlook(story: str, failed_starts: int, waits_ms: int | None, alarm: bool, back_to: str | None) -> None:
    intents, seen = parse_story(story)
    now_ms = len(intents.records) * STEP_MS
    found = outlook(intents, seen, now_ms, LIMITS)
    newest_failure_ms = max(
        (each.append_ms for each in seen.attempts.values() if each.status.phase.is_failure), default=0
    )
    assert found.failed_starts == failed_starts
    assert found.due_ms == (0 if waits_ms is None else newest_failure_ms + waits_ms)
    assert found.alarm is alarm
    assert (found.roll_back_to.code if found.roll_back_to else None) == back_to


def test_a_brokers_clock_ahead_of_ours_does_not_lengthen_the_wait() -> None:
    intents, seen = parse_story("A:unseen A:failed")
    assert outlook(intents, seen, now_ms=0, limits=LIMITS).due_ms == 5_000
