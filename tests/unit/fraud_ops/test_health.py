"""The verdicts that follow from observations."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fraud_ops.verdicts.health import assess_detector, assess_supervision
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.attempt import AttemptPhase as Phase
from fraud_rules.deploy.work import Work, WorkPhase
from tests.support.operations.observations import DETECTOR, NOW_MS, World, ms_ago, release, running

ASKED = World().asked(release())
FAILED_ONCE = ASKED.said(Phase.FAILED, error_name="Stalled").asked(release())


def restoring(ago_s: float) -> Work:
    return Work(WorkPhase.STATE, ms_ago(900), ms_ago(ago_s), 1_200_000, 4_000_000, "events", 0)


def evaluating(ago_s: float) -> Work:
    return Work(WorkPhase.BATCH, ms_ago(300), ms_ago(ago_s), 3, 8, "key groups", 8)


def checking(ago_s: float) -> Work:
    return Work(WorkPhase.CHECK, ms_ago(900), ms_ago(ago_s))


DIED = running().said(Phase.FAILED, exit_code=-9)

TABLE = {
    "no intent": (World(), Health.STOPPED, "no start has been requested"),
    "no intent, but it runs": (World().wrote(ago_s=5), Health.HEALTHY, "started by hand"),
    "no intent, but it ran": (World().wrote(ago_s=41), Health.STOPPED, "no start has been requested"),
    "no intent, and it falls behind": (World().wrote(ago_s=5, lag=100_001), Health.LAGGING, "started by hand"),
    "drained, then started by hand": (
        running(ago_s=90).said(Phase.STOPPED).asked(None, ago_s=30).said(Phase.STOPPED, ago_s=20).wrote(ago_s=5),
        Health.HEALTHY, "started by hand",
    ),
    "drained a moment ago": (
        running(ago_s=90).wrote(ago_s=8).said(Phase.STOPPED, ago_s=7).asked(None, ago_s=7).said(Phase.STOPPED, ago_s=7),
        Health.STOPPED, "requested by",
    ),
    "asked for a moment ago": (ASKED, Health.STARTING, "requested 60 s ago"),
    "asked for long ago, an agent is there": (World().asked(release(), ago_s=200), Health.DEAD, "no agent has started"),
    "asked for, and no agent ever": (replace(ASKED, agent_age_s=None), Health.AGENT_SILENT, "no agent has reported"),
    "asked for a moment ago, no agent yet": (
        replace(World().asked(release(), ago_s=5), agent_age_s=None), Health.STARTING, "requested 5 s ago",
    ),
    "started, no batch yet": (ASKED.said(Phase.STARTING, ago_s=20), Health.STARTING, "no batch yet"),
    "started long ago, no batch yet": (ASKED.said(Phase.RUNNING, ago_s=200), Health.STALLED, "no batch yet"),
    "a start counts the whole outage": (
        ASKED.said(Phase.RUNNING, ago_s=10).wrote(ago_s=900), Health.STARTING, "the last batch ended 900 s ago",
    ),
    "so does a start that no agent has accepted": (
        World().asked(release(), ago_s=5).wrote(ago_s=900), Health.STARTING, "the last batch ended 900 s ago",
    ),
    "a slow start that makes progress": (
        ASKED.said(Phase.STARTING, ago_s=5, began_ago_s=900, work=restoring(ago_s=12)), Health.STARTING,
        "restoring state (batch 0): 1,200,000 of 4,000,000 events, last progress 12 s ago",
    ),
    "a start without progress": (
        ASKED.said(Phase.STARTING, ago_s=5, began_ago_s=900, work=restoring(ago_s=181)), Health.STALLED,
        "no progress for 181 s (limit 180 s)",
    ),
    "a start that stands still, after one that failed": (
        FAILED_ONCE.said(Phase.STARTING, ago_s=5, began_ago_s=900, work=restoring(ago_s=181)), Health.STARTING,
        "last progress 181 s ago",
    ),
    "a second start that stands still": (
        FAILED_ONCE.said(Phase.STARTING, ago_s=5, began_ago_s=900, work=restoring(ago_s=361)), Health.STALLED,
        "no progress for 361 s (limit 360 s)",
    ),
    "a slow check that makes progress": (
        World().asked(release(), ago_s=900).said(Phase.ACCEPTED, ago_s=5, work=checking(ago_s=20)), Health.STARTING,
        "checking the release, last progress 20 s ago",
    ),
    "a check without progress": (
        World().asked(release(), ago_s=900).said(Phase.ACCEPTED, ago_s=5, work=checking(ago_s=181)), Health.DEAD,
        "no agent has started",
    ),
    "a long batch that makes progress": (
        running(ago_s=2, began_ago_s=900, work=evaluating(ago_s=3)).wrote(ago_s=300), Health.LAGGING,
        "evaluating (batch 8): 3 of 8 key groups, last progress 3 s ago",
    ),
    "a long batch without progress": (
        running(ago_s=5, began_ago_s=900, work=evaluating(ago_s=41)).wrote(ago_s=300), Health.STALLED,
        "no progress for 41 s (limit 40 s)",
    ),
    "an agent's clock that is wrong, and a long batch": (
        replace(ASKED, agent_skew_s=7_200)
        .said(Phase.RUNNING, ago_s=2, began_ago_s=900, work=evaluating(ago_s=3 - 7_200)).wrote(ago_s=300),
        Health.LAGGING, "last progress 3 s ago",
    ),
    "only batches of the one before": (
        ASKED.said(Phase.RUNNING, ago_s=10).wrote(ago_s=30), Health.STARTING, "no batch yet",
    ),
    "well": (running(), Health.HEALTHY, "batch 7 ended 2 s ago"),
    "idle": (running(ago_s=90).wrote(ago_s=39), Health.HEALTHY, "39 s ago"),
    "hangs": (running(ago_s=90).wrote(ago_s=41), Health.STALLED, "has made no progress"),
    "falls behind": (running().wrote(ago_s=1, lag=100_001), Health.LAGGING, "100,001 transactions behind"),
    "its agent is silent": (replace(running(), agent_age_s=31), Health.AGENT_SILENT, "agent-1 on host-1"),
    "killed": (ASKED.said(Phase.FAILED, exit_code=-9), Health.DEAD, "failed with -9"),
    "lost with its host": (ASKED.said(Phase.LOST), Health.DEAD, "lost"),
    "ended in order, unasked": (ASKED.said(Phase.STOPPED), Health.DEAD, "stopped"),
    "stopped by the rule log": (
        ASKED.said(Phase.STOPPED, error_name="DetectorStopped", exit_code=13), Health.STOPPED, "DetectorStopped",
    ),
    "no broker for it": (ASKED.said(Phase.FAILED, error_name="BrokerUnavailable"), Health.DEAD, "BrokerUnavailable"),
    "a damaged checkpoint": (
        ASKED.said(Phase.FAILED, error_name="CheckpointDamaged", message="has gaps"), Health.CHECKPOINT_DAMAGED, "gaps",
    ),
    "a foreign checkpoint": (
        ASKED.said(Phase.FAILED, error_name="CheckpointForeign"), Health.CHECKPOINT_FOREIGN, "CheckpointForeign",
    ),
    "records are gone": (
        ASKED.said(Phase.FAILED, error_name="OffsetsLost", exit_code=41), Health.OFFSETS_LOST, "OffsetsLost",
    ),
    "a topic with the producers' times": (
        ASKED.said(Phase.FAILED, error_name="TopicUnsuitable"), Health.TOPIC_UNSUITABLE, "TopicUnsuitable",
    ),
    "taken over from": (ASKED.said(Phase.FAILED, error_name="Fenced", exit_code=10), Health.DUPLICATE, "Fenced"),
    "taken over from, by a detector that works": (
        ASKED.said(Phase.FAILED, ago_s=900, error_name="Fenced").wrote(ago_s=5), Health.DUPLICATE, "Fenced",
    ),
    "fenced, and nothing else has written since": (
        World().asked(release(), ago_s=900).said(Phase.FAILED, ago_s=181, error_name="Fenced").wrote(ago_s=190),
        Health.DEAD, "no other detector has written a batch for 181 s",
    ),
    "taken over from, by a detector that has ended": (
        World().asked(release(), ago_s=900).said(Phase.FAILED, ago_s=400, error_name="Fenced").wrote(ago_s=181),
        Health.DEAD, "no other detector has written a batch for 181 s",
    ),
    "suspended in a transaction": (
        ASKED.said(Phase.FAILED, error_name="TransactionExpired", exit_code=66), Health.DEAD, "TransactionExpired",
    ),
    "behind an open transaction": (
        ASKED.said(Phase.FAILED, error_name="TransactionOpen", exit_code=65), Health.DEAD, "TransactionOpen",
    ),
    "a full disk": (
        ASKED.said(Phase.FAILED, error_name="CheckpointDamaged", message="x: No space left on device"),
        Health.DISK_FULL, "No space left",
    ),
    "stopped by the rule log while the disk of its log is full": (
        ASKED.said(Phase.STOPPED, error_name="DetectorStopped", message="stopped; No space left on device: a.log"),
        Health.STOPPED, "DetectorStopped",
    ),
    "a full quota": (
        ASKED.said(Phase.FAILED, error_name="StorageFull", message="x: Disk quota exceeded"),
        Health.DISK_FULL, "Disk quota exceeded",
    ),
    "a wrong master": (ASKED.said(Phase.FAILED, error_name="ConfigError", exit_code=3), Health.REFUSED, "ConfigError"),
    "refused, and nothing before it": (
        ASKED.said(Phase.REFUSED, error_name="ConfigError", message="no such field"), Health.REFUSED, "no such field",
    ),
    "refused, and the one before still runs": (
        running(ago_s=90).asked(release("key_groups: 0"), ago_s=5).said(Phase.REFUSED, error_name="ConfigError"),
        Health.HEALTHY, "was refused",
    ),
    "not allowed, and the one before still runs": (
        running(ago_s=90).asked(release("b: 1"), ago_s=5).said(Phase.REFUSED, error_name="ReleaseNotAllowed"),
        Health.REFUSED, "was refused",
    ),
    "not allowed, and the one before died": (
        DIED.asked(release("b: 1")).said(Phase.REFUSED, error_name="ReleaseNotAllowed"), Health.DEAD, "was refused",
    ),
    "a forged drain, and the one before still runs": (
        running(ago_s=90).asked(None, ago_s=5).said(Phase.REFUSED, error_name="IntentForged"),
        Health.REFUSED, "was refused",
    ),
    "a forged repetition, and the one before died": (
        DIED.asked(release()).said(Phase.REFUSED, error_name="IntentForged"), Health.DEAD, "was refused",
    ),
    "forged, and nothing before it": (
        ASKED.said(Phase.REFUSED, error_name="IntentForged", message="no key"), Health.REFUSED, "no key",
    ),
    "refused after one that was never started": (
        running(ago_s=90).asked(release("a: 1")).said(Phase.SUPERSEDED).asked(release("b: 1")).said(Phase.REFUSED),
        Health.HEALTHY, "was refused",
    ),
    "died, and its checkpoint is damaged": (
        DIED.asked(release()).said(Phase.REFUSED, error_name="CheckpointDamaged"), Health.CHECKPOINT_DAMAGED, "with -9",
    ),
    "died, and there is no master for another": (
        DIED.asked(release()).said(Phase.REFUSED, error_name="MasterUnavailable"), Health.DEAD, "MasterUnavailable",
    ),
    "died, after a changed one was refused": (
        DIED.asked(release("b: 1")).said(Phase.REFUSED, error_name="CheckpointForeign"), Health.DEAD, "was refused",
    ),
    "drained, and another start is refused": (
        running().said(Phase.STOPPED).asked(None).said(Phase.STOPPED, ago_s=1)
        .asked(release()).said(Phase.REFUSED, error_name="CheckpointForeign"),
        Health.CHECKPOINT_FOREIGN, "refused",
    ),
    "some quarantined": (running().read(81, quarantined=19), Health.HEALTHY, "batch 7"),
    "a transaction in flight": (running().hides(ago_s=30), Health.HEALTHY, "batch 7"),
    "a hung producer": (
        running().hides(ago_s=31).arrived(ago_s=86_400), Health.HUNG_PRODUCER,
        "4711 (gateway-3) has been open for 31 s and hides the records of transactions-2 from offset 5 on; batch 7",
    ),
    "hung by hand": (World().wrote(ago_s=5).hides(ago_s=31), Health.HUNG_PRODUCER, "4711"),
    "a hung producer, and no batch": (running(ago_s=90).wrote(ago_s=41).hides(ago_s=99), Health.STALLED, "no progress"),
    "its batches are hidden": (
        running(ago_s=90).wrote(ago_s=41).hides_reports(ago_s=50), Health.HUNG_PRODUCER,
        "4711 (fraud-rules-loans) has been open for 50 s and hides the records of detector-progress-0",
    ),
    "its agent's reports are hidden": (
        replace(running(), agent_age_s=31).hides_reports(ago_s=50), Health.HUNG_PRODUCER, "fraud-rules-loans",
    ),
    "it died, and later batches are hidden": (DIED.hides_reports(ago_s=50), Health.DEAD, "failed with -9"),
    "a fifth quarantined": (
        running().read(80, quarantined=20), Health.MOSTLY_QUARANTINED, "20 of the last 100 records (20%)",
    ),
    "everything quarantined": (
        running().read(0, quarantined=20), Health.MOSTLY_QUARANTINED, "most often: invalid_field: payeeId is missing",
    ),
    "everything quarantined of a few": (running().read(0, quarantined=19), Health.HEALTHY, "batch 7"),
    "some late": (running().read(100, late=19), Health.HEALTHY, "batch 7"),
    "a fifth late": (running().read(100, late=20), Health.MOSTLY_LATE, "were late, and no rule evaluates them"),
    "late, quarantined and behind": (
        running().wrote(ago_s=1, lag=100_001).read(50, late=50, quarantined=50), Health.MOSTLY_QUARANTINED, "50 of",
    ),
    "everything quarantined, and it hangs": (
        running(ago_s=90).wrote(ago_s=41).read(0, quarantined=20), Health.STALLED, "has made no progress",
    ),
    "never a transaction": (running().read(0), Health.HEALTHY, "batch 7"),
    "no transaction for less than a day": (running().arrived(ago_s=86_399), Health.HEALTHY, "batch 7"),
    "no transaction for a day": (running().arrived(ago_s=86_400), Health.BLIND, "has arrived for 24.0 h"),
    "no transaction left": (running().arrived(ago_s=NOW_MS / 1_000), Health.BLIND, "retention has removed"),
    "a clock that is behind": (replace(running(), skew_s=-31), Health.CLOCK_SKEW, "31 s behind the broker's; batch 7"),
    "a clock that is ahead": (replace(running(), skew_s=31), Health.CLOCK_SKEW, "31 s ahead of the broker's; batch 7"),
    "a clock that is nearly right": (replace(running(), skew_s=30), Health.HEALTHY, "batch 7"),
    "a clock that nothing is known of": (replace(running(), skew_s=None), Health.HEALTHY, "batch 7"),
    "a detector's clock that is behind": (
        replace(running(), detector_skew_s=-3_600), Health.CLOCK_SKEW,
        "the detector's clock is 3600 s behind the broker's; batch 7",
    ),
    "a detector's clock that is nearly right": (replace(running(), detector_skew_s=29), Health.HEALTHY, "batch 7"),
    "both clocks are ahead of the broker's": (
        replace(running(), skew_s=99, detector_skew_s=98), Health.CLOCK_SKEW,
        "Airflow's clock is 99 s ahead of the broker's; the detector's clock is 98 s ahead of the broker's",
    ),
    "a clock that is wrong, and more": (
        replace(running().read(0, quarantined=20), skew_s=-360), Health.MOSTLY_QUARANTINED, "clock is 360 s behind",
    ),
    "started long ago, by an agent whose clock is ahead": (
        replace(ASKED, agent_skew_s=3_600).said(Phase.RUNNING, ago_s=200), Health.STALLED, "running for 200 s",
    ),
    "started a moment ago, by an agent whose clock is behind": (
        replace(ASKED, agent_skew_s=-3_600).said(Phase.STARTING, ago_s=20), Health.STARTING, "starting for 20 s",
    ),
    "being drained": (
        running().asked(None, by="drain by ann", reason="maintenance").said(Phase.DRAINING), Health.DRAINING, "ann",
    ),
    "drained": (
        running().said(Phase.STOPPED).asked(None, reason="repairs").said(Phase.STOPPED, ago_s=1),
        Health.STOPPED, "repairs",
    ),
    "two that decide": (running().supervisor(9, "http://there"), Health.DUPLICATE, "http://there also supervises"),
    "another that decided once": (running().supervisor(31, "http://there"), Health.HEALTHY, "batch 7"),
    "ourselves, a moment ago": (running().supervisor(1), Health.HEALTHY, "batch 7"),
    "two that write": (replace(running(), writers=("a", "b", "a")), Health.DUPLICATE, "a, b"),
    "a new attempt": (replace(running(), writers=("a", "b")), Health.HEALTHY, "batch 7"),
}  # fmt: skip


@pytest.mark.parametrize(("world", "expected", "reason"), TABLE.values(), ids=TABLE.keys())
def test_verdict(world: World, expected: Health, reason: str) -> None:
    verdict = assess_detector(world.seen, HealthSettings(), NOW_MS, supervisor="http://here")
    assert verdict.health is expected, verdict
    assert reason in "; ".join(verdict.reasons)
    assert Verdict.of(verdict.as_dict()) == verdict


BLINDED, SKEWED = running().read(0, quarantined=20), replace(running(), skew_s=31)
SINCE = {
    "blind at first sight": (BLINDED, 0),
    "blind for an hour": (BLINDED.verdict(Health.MOSTLY_QUARANTINED, since_s=3_600), 3_600),
    "another verdict before": (BLINDED.verdict(Health.STARTING, since_s=3_600), 0),
    "no supervisor for minutes": (BLINDED.verdict(Health.MOSTLY_QUARANTINED, since_s=3_600, noted_s=121), 0),
    "a wrong clock for a day": (SKEWED.verdict(Health.CLOCK_SKEW, since_s=86_400), 86_400),
}


@pytest.mark.parametrize(("world", "ago_s"), SINCE.values(), ids=SINCE.keys())
def test_a_verdict_about_a_working_detector_has_its_beginning(world: World, ago_s: int) -> None:
    verdict = assess_detector(world.seen, HealthSettings(), NOW_MS, supervisor="http://here")
    since = datetime.fromtimestamp(NOW_MS / 1_000 - ago_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert verdict.reasons[-1] == f"{verdict.health} since {since}"


@pytest.mark.parametrize(
    ("name", "value", "world", "found"),
    [
        ("quarantined_percent", 51, running().read(50, quarantined=50), Health.MOSTLY_QUARANTINED),
        ("late_percent", 51, running().read(100, late=50), Health.MOSTLY_LATE),
        ("silent_ms", 90_000_000, running().arrived(ago_s=86_400), Health.BLIND),
        ("silent_ms", 0, running().arrived(ago_s=86_400 * 365), Health.BLIND),
    ],
)
def test_the_limits_of_shares_and_silence_are_settings(name: str, value: int, world: World, found: Health) -> None:
    configured = replace(HealthSettings(), **{name: value})
    verdicts = [assess_detector(world.seen, limits, NOW_MS).health for limits in (HealthSettings(), configured)]
    assert verdicts == [found, Health.HEALTHY]


def test_a_broker_that_is_away_is_a_verdict() -> None:
    seen = DetectorObservation.failed(DETECTOR, NOW_MS, "no Kafka answers at kafka:9092")
    assert assess_detector(seen, HealthSettings(), NOW_MS) == Verdict(
        Health.BROKER_DOWN, ("no Kafka answers at kafka:9092",)
    )


def test_only_the_clock_makes_a_working_detector_stall() -> None:
    seen = running(ago_s=300).wrote(ago_s=0).seen
    verdicts = [
        assess_detector(seen, HealthSettings(stalled_ms=1_000), NOW_MS + later_ms).health
        for later_ms in (0, 1_000, 1_001)
    ]
    assert verdicts == [Health.HEALTHY, Health.HEALTHY, Health.STALLED]


LONG_AGO = World().asked(release(), ago_s=600).said(Phase.RUNNING, ago_s=590).wrote(ago_s=2)


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        (World(), None),
        (LONG_AGO.asked(None, ago_s=500), None),
        (running(), None),
        (LONG_AGO.supervisor(119), None),
        (LONG_AGO, "no supervisor has checked"),
        (
            LONG_AGO.asked(None, ago_s=500).said(Phase.REFUSED, error_name="IntentForged"),
            "no supervisor has checked",
        ),
        (LONG_AGO.supervisor(121), "the last check was 121 s ago, by http://here"),
    ],
    ids=[
        "no intent",
        "drained",
        "recent request",
        "supervised",
        "never supervised",
        "forged drain",
        "outdated supervision",
    ],
)
def test_a_missing_supervisor_is_reported(world: World, reason: str | None) -> None:
    verdict = assess_supervision(world.seen, HealthSettings(), NOW_MS)
    if reason is None:
        assert verdict is None
    else:
        assert verdict is not None
        assert verdict.health is Health.UNSUPERVISED
        assert reason in verdict.reasons[0]
