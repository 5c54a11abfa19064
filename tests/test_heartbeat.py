"""Who looks after the supervisor."""

from __future__ import annotations

import pytest

from fraud_rules.deployment.attempt import AgentStatus, DeploymentSeen, Supervision
from fraud_rules.deployment.heartbeat import faults_of

NOW_MS = 1_000_000
AGENT = AgentStatus("cards", "agent-1", "host", "c0de", 0, 3)
LOOK = Supervision("cards", "airflow", 0, "HEALTHY", 3)


@pytest.mark.parametrize(
    ("supervision_age_s", "agent_age_s", "faults"),
    [
        (10, 5, []),
        (121, 5, ["nobody has looked at the detector for 121 s: airflow said HEALTHY then"]),
        (10, 31, ["the agent agent-1 on host is silent for 31 s"]),
        (None, None, ["nobody has ever supervised", "no agent has ever reported"]),
        (500, 500, ["nobody has looked", "the agent agent-1"]),
    ],
)
def test_faults(supervision_age_s: int | None, agent_age_s: int | None, faults: list[str]) -> None:
    seen = DeploymentSeen(
        {},
        None if agent_age_s is None else (NOW_MS - agent_age_s * 1_000, AGENT),
        None if supervision_age_s is None else (NOW_MS - supervision_age_s * 1_000, LOOK),
    )
    found = faults_of(seen, NOW_MS, 120_000)
    assert len(found) == len(faults)
    assert all(fault.startswith(start) for fault, start in zip(found, faults, strict=True)), found
