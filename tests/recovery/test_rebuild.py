"""A rebuild after the loss of the state, or for another number of key groups: the state is recomputed from the
topics, and outputs are complete and without duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fraud_rules.configuration.project import Project
from fraud_rules.errors import CheckpointForeign, StateDamaged
from fraud_rules.kafka.consume import topic_ends
from fraud_rules.model.schema import TransactionSchema
from tests.support import oracle
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.state_damage import recreate_state
from tests.support.processes.running_detector import Installation
from tests.support.recovery.site import Site
from tests.support.recovery.verdict import Run, recorded_stream
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(900)]

ROWS = 400


class RebuildSite(Site):
    """A detector under load that is stopped, rebuilt and killed."""

    def await_batches(self, count: int) -> None:
        """Wait for further batches, of any query."""
        known = len(self.installation.progress())
        until(lambda: len(self.installation.progress()) >= known + count, f"{count} more batches are written")

    def set_key_groups(self, key_groups: int) -> None:
        """Change the setting for further starts."""
        path = self.installation.home / "detector.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "key_groups": key_groups}))
        settings = replace(self.installation.settings, key_groups=key_groups)
        self.installation = replace(self.installation, settings=settings)


def test_a_lost_state_is_rebuilt_also_after_a_kill(project: Project, topics: OwnTopics, tmp_path: Path) -> None:
    with RebuildSite(tmp_path, project, topics, seed=5, key_groups=4).working(ROWS) as site:
        site.start()
        site.await_batches(20)
        assert site.starts[-1].stop() == 0
        recreate_state(topics)
        assert site.start().wait_end() == StateDamaged.exit_code
        site.load.allow(ROWS)
        killed = site.start("--rebuild=once")
        state = topics.names.detector_state
        until(lambda: any(topic_ends(topics.kafka, state).values()), "the rebuild writes chunks")
        killed.kill()
        again = site.start("--rebuild=once")
        site.await_batches(1)
        again.kill()
        site.start("--rebuild=once")
        site.await_batches(10)
        site.finish()
        site.check_outputs()


def test_the_number_of_key_groups_changes_and_changes_back(project: Project, topics: OwnTopics, tmp_path: Path) -> None:
    with RebuildSite(tmp_path, project, topics, seed=6, key_groups=4).working(ROWS) as site:
        site.start()
        site.await_batches(20)
        parts: list[tuple[Installation, int | None]] = []
        for key_groups in (5, 4):
            assert site.starts[-1].stop() == 0
            parts.append((site.installation, len(site.installation.progress())))
            site.set_key_groups(key_groups)
            assert site.start().wait_end() == CheckpointForeign.exit_code
            site.load.allow(ROWS)
            site.start(f"--rebuild=to-{key_groups}")
            site.await_batches(20)
        site.finish()
        found = faults_of_changes([*parts, (site.installation, None)], site.load.traffic.documents)
        assert not found, "\n".join(found)


def faults_of_changes(parts: Sequence[tuple[Installation, int | None]], documents: dict[bytes, Any]) -> list[str]:
    """Compare the alerts with the oracle, which evaluates the whole stream with the settings of each installation.

    `parts` are the installations in order, each with the number of batches at its end (None: all). An installation has
    written the alerts from the end of the previous one to its own.
    """
    last = parts[-1][0]
    run, schema = Run.of(last), TransactionSchema.load(last.schema)

    def alerts(installation: Installation, batches: int | None) -> list[dict[str, Any]]:
        """The alerts of the first batches with these settings."""
        if batches == 0:
            return []
        known = up_to(run, batches, installation)
        return list(oracle.evaluate(recorded_stream(known, installation, documents), schema)["alerts"])

    expected: list[dict[str, Any]] = []
    before: int | None = 0
    for installation, batches in parts:
        expected += alerts(installation, batches)[len(alerts(installation, before)) :]
        before = batches
    wanted = sorted((each["transactionId"], each["ruleId"], each["triggeringValue"]) for each in expected)
    written = [*run.values("alerts"), *run.values("shadow_alerts")]
    got = sorted(
        (each["triggeringEvent"]["transactionId"], each["ruleId"], each["triggeringValue"]) for each in written
    )
    return [] if wanted == got else [f"{len(wanted)} alerts expected, {len(got)} written"]


def up_to(run: Run, batches: int | None, installation: Installation) -> Run:
    """The part of a run that its first batches have evaluated."""
    progress = run.progress[:batches]
    ends = progress[-1].ends_of(installation.topics.names.transactions)
    transactions = [tx for tx in run.transactions if tx.offset() < ends.get(tx.partition(), 0)]
    return replace(run, transactions=transactions, progress=progress)
