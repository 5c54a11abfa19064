"""The alarms about a missing supervisor or agent."""

from __future__ import annotations

import threading
import time

import pytest

from fraud_rules.deploy.attempt import AgentStatus, DeploymentReports, Supervision
from fraud_rules.deploy.deployment_log import observe_deployment, write_supervision
from fraud_rules.deploy.heartbeat import faults_of
from tests.support.kafka.own_topics import OwnTopics

TOPIC_ROLES = ("detector_attempts",)

NOW_MS = 1_000_000
AGENT = AgentStatus("cards", "agent-1", "host", "c0de", 0, 3)
LOOK = Supervision("cards", "airflow", 0, "HEALTHY", 3)


@pytest.mark.parametrize(
    ("supervision_age_s", "agent_age_s", "faults"),
    [
        (10, 5, []),
        (121, 5, ["no supervisor has checked the detector for 121 s: airflow last reported HEALTHY"]),
        (10, 31, ["the agent agent-1 on host has not reported for 31 s"]),
        (None, None, ["no supervisor has ever checked", "no agent has ever reported"]),
        (500, 500, ["no supervisor has checked", "the agent agent-1"]),
    ],
)
def test_faults(supervision_age_s: int | None, agent_age_s: int | None, faults: list[str]) -> None:
    seen = DeploymentReports(
        {},
        None if agent_age_s is None else (NOW_MS - agent_age_s * 1_000, AGENT),
        None if supervision_age_s is None else (NOW_MS - supervision_age_s * 1_000, LOOK),
    )
    found = faults_of(seen, NOW_MS, 120_000)
    assert len(found) == len(faults)
    assert all(fault.startswith(start) for fault, start in zip(found, faults, strict=True)), found


@pytest.mark.parametrize("wrong_ms", [0, 10**15])
def test_a_host_with_a_wrong_clock_reads_the_brokers_time_from_the_next_record(
    topics: OwnTopics, wrong_ms: int
) -> None:
    topic = topics.names.detector_attempts
    assert observe_deployment(topics.kafka, topic, "cards", 60_000, lambda: wrong_ms) == (DeploymentReports(), wrong_ms)
    write_supervision(topics.kafka, topic, LOOK)
    later = threading.Timer(1.0, write_supervision, (topics.kafka, topic, LOOK))
    later.start()
    seen, broker_ms = observe_deployment(topics.kafka, topic, "cards", 60_000, lambda: wrong_ms)
    later.join()
    assert seen.supervision == (broker_ms, LOOK)
    assert broker_ms == pytest.approx(time.time() * 1_000, abs=30_000)


def test_a_silent_agent_ages_by_any_clock(topics: OwnTopics) -> None:
    topic = topics.names.detector_attempts
    write_supervision(topics.kafka, topic, LOOK)
    seen, broker_ms = observe_deployment(topics.kafka, topic, "cards", 300, lambda: 0)
    assert seen.supervision is not None
    assert broker_ms == seen.supervision[0] + 300
