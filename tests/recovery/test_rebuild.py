"""A rebuild after the loss of the state, or for another number of key groups: the state is recomputed from the
topics, and outputs are complete and without duplicates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fraud_rules.configuration.project import Project
from fraud_rules.errors import CheckpointForeign, StateDamaged
from fraud_rules.model.schema import TransactionSchema
from tests.support import oracle
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.state_damage import recreate_state
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.recovery.site import Site
from tests.support.recovery.verdict import Run, differences, recorded_stream
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(900)]

ROWS = 400


class RebuildSite(Site):
    """A detector under load that is stopped, rebuilt and killed."""

    def await_batches(self, count: int) -> None:
        """Wait for further batches, of any query."""
        known = len(self.installation.progress())
        until(lambda: len(self.installation.progress()) >= known + count, f"{count} more batches are written")

    @property
    def old_checkpoints(self) -> list[Path]:
        return sorted(self.installation.home.glob("checkpoint.aside-*"))


def test_a_lost_state_is_rebuilt_also_after_a_kill(project: Project, topics: OwnTopics, tmp_path: Path) -> None:
    with RebuildSite(tmp_path, project, topics, seed=5, key_groups=4).working(ROWS) as site:
        site.start()
        site.await_batches(20)
        assert RunningDetector(site.installation, "--rebuild=rushed").wait_end() == CheckpointForeign.exit_code
        assert site.starts[-1].stop() == 0
        recreate_state(topics)
        assert site.start().wait_end() == StateDamaged.exit_code
        site.load.allow(ROWS)
        killed = site.start("--rebuild=once")
        until(lambda: site.old_checkpoints, "the old checkpoint is set aside")
        killed.kill()
        again = site.start()
        site.await_batches(1)
        again.kill()
        site.start("--rebuild=once")
        site.await_batches(10)
        site.finish()
        assert len(site.old_checkpoints) == 1, "the rebuild ran once"
        assert (site.old_checkpoints[0] / "offsets").is_dir(), "the old checkpoint is kept"
        found, counts = differences(site.installation, site.load.traffic.documents, rebuilds=1)
        assert not found, "\n".join(found)
        assert counts["alerts"] > 0


def test_a_rebuild_changes_the_number_of_key_groups(project: Project, topics: OwnTopics, tmp_path: Path) -> None:
    with RebuildSite(tmp_path, project, topics, seed=6, key_groups=4).working(ROWS) as site:
        site.start()
        site.await_batches(20)
        assert site.starts[-1].stop() == 0
        before = site.installation
        settings = yaml.safe_load((tmp_path / "detector.yaml").read_text())
        (tmp_path / "detector.yaml").write_text(yaml.safe_dump({**settings, "key_groups": 7}))
        site.installation = replace(before, settings=replace(before.settings, key_groups=7))
        assert site.start().wait_end() == CheckpointForeign.exit_code
        site.load.allow(ROWS)
        site.start("--rebuild=more-groups")
        site.await_batches(20)
        site.finish()
        found = faults_of_change(before, site.installation, site.load.traffic.documents)
        assert not found, "\n".join(found)


def faults_of_change(before: Installation, after: Installation, documents: dict[bytes, Any]) -> list[str]:
    """Compare alerts with the oracle: up to the change with the old settings, after it with the new ones."""
    run, schema = Run.of(after), TransactionSchema.load(after.schema)
    changed_at = next(i for i, progress in enumerate(run.progress) if progress.rebuilt)
    full = recorded_stream(run, after, documents)
    ends = run.progress[changed_at - 1].ends_of(after.topics.names.transactions)
    known = replace(
        run,
        transactions=[tx for tx in run.transactions if tx.offset() < ends.get(tx.partition(), 0)],
        progress=run.progress[:changed_at],
    )
    old = oracle.evaluate(recorded_stream(known, before, documents), schema)["alerts"]
    skipped = len(oracle.evaluate(recorded_stream(known, after, documents), schema)["alerts"])
    expected = [*old, *oracle.evaluate(full, schema)["alerts"][skipped:]]
    wanted = sorted((each["transactionId"], each["ruleId"], each["triggeringValue"]) for each in expected)
    written = [*run.values("alerts"), *run.values("shadow_alerts")]
    got = sorted(
        (each["triggeringEvent"]["transactionId"], each["ruleId"], each["triggeringValue"]) for each in written
    )
    return [] if wanted == got else [f"{len(wanted)} alerts expected, {len(got)} written"]
