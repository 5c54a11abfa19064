"""Another program leaves a transaction open in each topic that the detector writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import Fenced
from tests.support.kafka.open_transaction import open_transaction
from tests.support.kafka.own_topics import OwnTopics
from tests.support.recovery.site import Site
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(600)]

ROWS = 200
DECIDE = ("detector_marker", "detector_state")
"""A start reads them to their end, and `detector-progress` (see test_start_kills), which the test itself follows."""
OUTPUTS = (
    "alerts", "shadow_alerts", "decisions", "restrictions", "late_transactions", "quarantine", "rule_operations",
    "current_rules", "latency",
)  # fmt: skip


def test_a_killed_detector_continues_behind_open_transactions(
    project: Project, topics: OwnTopics, tmp_path: Path
) -> None:
    with Site(tmp_path, project, topics, seed=33).working(ROWS) as site:
        site.start()
        site.await_work()
        with open_transaction(topics, *(getattr(topics.names, role) for role in OUTPUTS)):
            site.await_work()
            site.starts[-1].kill()
            site.start().wait_ready()
            site.await_work()
        before, go = site.starts[-1], tmp_path / "go"
        successor = site.start(f"--hold={go}")
        until(lambda: "detector: ready" in successor.said(), "the successor is prepared")
        with open_transaction(topics, *(getattr(topics.names, role) for role in DECIDE)):
            go.touch()
            assert before.wait_end() == Fenced.exit_code, before.said()[-2000:]
            assert not successor.is_ready(), "it waits for the records that the transaction hides"
        successor.wait_ready()
        site.await_work()
        site.finish()
    site.check_outputs()
