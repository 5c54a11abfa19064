"""Checks whether a supervisor and an agent are at work, from their reports. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fraud_rules.deploy.attempt import DeploymentReports
from fraud_rules.runtime.clock import MS_PER_S

AGENT_SILENT_MS = 30_000
LISTEN_MS = AGENT_SILENT_MS + 1_000
"""How long to wait for the next record. An agent that writes none in this time is silent by any clock."""


def faults_of(seen: DeploymentReports, now_ms: int, max_age_ms: int) -> Sequence[str]:
    """The faults of the supervisor and the agent, as sentences. Empty if both are at work."""
    faults = []
    if seen.supervision is None:
        faults.append(
            "no supervisor has ever checked the detector: is Airflow running, and its DAG fraud_detector unpaused?"
        )
    elif now_ms - seen.supervision[0] > max_age_ms:
        at_ms, last = seen.supervision
        faults.append(
            f"no supervisor has checked the detector for {(now_ms - at_ms) // MS_PER_S} s: {last.supervisor} last "
            f"reported {last.verdict}; is Airflow running, and its DAG fraud_detector unpaused?"
        )
    if seen.agent is None:
        faults.append("no agent has ever reported: intents are not executed (start one with fraud detector agent)")
    elif now_ms - seen.agent[0] > AGENT_SILENT_MS:
        age_s = (now_ms - seen.agent[0]) // MS_PER_S
        faults.append(f"the agent {seen.agent[1].agent} on {seen.agent[1].host} has not reported for {age_s} s")
    return faults
