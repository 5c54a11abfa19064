"""A zombie, a takeover, a kill between chunks and transaction, a full disk, a lost state and a rebuild, each once, in
one run of one detector. The broker compacts the topic of the state all the time.

All tests of this file, of test_takeover, test_state_writes, test_empty_host and test_rebuild are long. By default,
`test_kills` kills a detector under load, and these show the parts: `integration/test_writer` a takeover,
`integration/state/test_state_topic` a chunk without a transaction and a lost state, `unit/stream/test_views_folder` and
`unit/engine/test_window_views` a full disk, and `integration/starts/test_lost_offsets` a rebuild.
"""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable, DetectorFailed, Fenced, StorageFull
from tests.support.kafka.compaction import compact_continuously, has_compacted
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.state_damage import recreate_state
from tests.support.processes.constants import with_constants
from tests.support.recovery.chunk_kill import kill_after_a_chunk
from tests.support.recovery.site import Site
from tests.support.small_disk import small_disk
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(900)]

ROWS = 200


class Story(Site):
    """One installation under load, whose temporary files have their own disk."""

    def take_over(self) -> None:
        """Take over from a suspended detector, which wakes while the other detector works."""
        zombie = self.start()
        self.await_work(3)
        zombie.suspend()
        self.start().wait_ready()
        self.await_work(2)
        zombie.signal_all(signal.SIGCONT)
        # A suspended write may time out.
        ends = (Fenced.exit_code, DetectorFailed.exit_code, BrokerUnavailable.exit_code)
        assert zombie.wait_end() in ends, zombie.said()[-2000:]
        zombie.kill()

    def await_compaction(self) -> None:
        detector = self.installation.settings.detector
        until(
            lambda: has_compacted(self.installation.topics, detector), "the broker has compacted the state", every_s=1.0
        )

    def kill_before_the_transaction(self) -> None:
        """Kill the detector after a task has written a chunk. The next start may restore the key group without it."""
        kill_after_a_chunk(self.starts[-1], self.installation.topics)
        self.start()
        self.await_work(3)

    def fill_the_disk(self, disk: Path) -> None:
        detector, ballast = self.starts[-1], disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4_096))
        assert detector.wait_end() == StorageFull.exit_code, detector.said()[-2000:]
        assert "No space left on device" in detector.said()
        detector.kill()
        ballast.unlink()

    def lose_the_state_and_rebuild(self) -> None:
        recreate_state(self.installation.topics)
        self.start("--rebuild=once")
        self.await_work(3)


def test_every_alert_is_right_after_all_failures(project: Project, topics: OwnTopics, tmp_path: Path) -> None:
    site = Story(tmp_path / "site", project, topics, seed=7, key_groups=4)
    site.installation = with_constants(site.installation, worker__state_log__LARGE_BYTES=1)
    compact_continuously(topics)
    disk = site.installation.home / "tmp"
    disk.rmdir()
    with small_disk(disk, "160m"), site.working(ROWS):
        site.take_over()
        site.await_compaction()
        site.kill_before_the_transaction()
        site.fill_the_disk(disk)
        site.lose_the_state_and_rebuild()
        site.finish()
        site.check_outputs()
