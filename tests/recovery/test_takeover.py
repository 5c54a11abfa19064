"""One writer: a replaced detector ends without a write, also after a suspension."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import (
    BrokerUnavailable,
    CheckpointForeign,
    DetectorFailed,
    Fenced,
)
from tests.support.kafka.own_topics import OwnTopics
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.recovery.site import Site
from tests.support.recovery.verdict import differences
from tests.support.waiting import MOMENT_S, until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(900)]

ROWS = 800


class TakeoverSite(Site):
    """One installation under load that several detectors start on."""

    def await_batches(self, count: int) -> None:
        wanted = self.watch.batch_id + count
        until(lambda: self.watch.batch_id >= wanted, f"batch {wanted} is written")

    def assert_right(self) -> None:
        """Let the last start read the rest, end it, and compare all outputs with the oracle."""
        self.finish()
        found, _ = differences(self.installation, self.load.traffic.documents)
        assert not found, "\n".join(found)


def test_a_working_detector_ends_after_a_takeover(project: Project, topics: OwnTopics, tmp_path: Path) -> None:
    with TakeoverSite(tmp_path, project, topics, seed=1).working(ROWS) as site:
        first = site.start()
        site.await_batches(3)
        second = site.start()
        second.wait_ready()
        assert first.wait_end() == Fenced.exit_code, first.said()[-2000:]
        site.await_batches(3)
        site.assert_right()


def test_a_refused_start_does_not_affect_the_running_detector(
    project: Project, topics: OwnTopics, tmp_path: Path
) -> None:
    """A second start with other settings is refused, and the first detector continues."""
    with TakeoverSite(tmp_path, project, topics, seed=4).working(ROWS) as site:
        site.start()
        site.await_batches(3)
        known = site.installation
        other = Installation.make(tmp_path / "other", project, topics, key_groups=known.settings.key_groups + 1)
        mistaken = RunningDetector(other)
        assert mistaken.wait_end() == CheckpointForeign.exit_code, mistaken.said()[-2000:]
        site.await_batches(3)
        site.assert_right()


def test_a_prepared_successor_is_killed_in_the_hand_over(project: Project, topics: OwnTopics, tmp_path: Path) -> None:
    """While it waits, it has changed nothing. When it has fenced the first detector, a third start continues."""
    go = tmp_path / "go"
    with TakeoverSite(tmp_path, project, topics, seed=3).working(ROWS) as site:
        first = site.start()
        site.await_batches(3)
        for kill_held in (True, False):
            successor = site.start(f"--hold={go}")
            until(lambda held=successor: "detector: ready" in held.said(), "the successor is prepared")
            site.await_batches(2)
            if kill_held:
                successor.kill()
                site.await_batches(2)
        go.touch()
        assert first.wait_end() == Fenced.exit_code, first.said()[-2000:]
        site.starts[-1].kill()
        site.start()
        site.await_batches(3)
        site.assert_right()


@pytest.mark.parametrize("moment", ["sent", "committed"])
def test_a_zombie_is_fenced_and_writes_nothing(
    moment: str, project: Project, topics: OwnTopics, tmp_path: Path
) -> None:
    """The zombie is suspended in a phase of a batch, and woken after another detector has written batches."""
    with TakeoverSite(tmp_path, project, topics, seed=2).working(ROWS) as site:
        zombie = site.start()
        site.await_batches(3)
        begun = site.watch.newest(moment)
        until(lambda: site.watch.newest(moment) > begun, f"a batch is {moment}", every_s=MOMENT_S)
        zombie.signal_all(signal.SIGSTOP)
        site.start().wait_ready()
        site.await_batches(3)
        zombie.signal_all(signal.SIGCONT)
        # If a write is suspended for longer than a request may take, the client times out before it learns that it is
        # fenced.
        ends = (Fenced.exit_code, DetectorFailed.exit_code, BrokerUnavailable.exit_code)
        assert zombie.wait_end() in ends, zombie.said()[-2000:]
        site.await_batches(3)
        site.assert_right()
