"""The checkpoint's folder is lost with the host of a killed detector: `--adopt` continues after the last output."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import CheckpointForeign
from tests.support.kafka.own_topics import OwnTopics
from tests.support.recovery.site import Site
from tests.support.recovery.verdict import differences
from tests.support.waiting import MOMENT_S, until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(900)]

ROWS = 600


@pytest.mark.parametrize("moment", ["planned", "written", "finished"])
def test_a_detector_continues_without_its_folder(
    moment: str, project: Project, topics: OwnTopics, tmp_path: Path
) -> None:
    with Site(tmp_path, project, topics, seed=21).working(ROWS) as site:
        killed = site.start()
        site.await_work()
        begun = site.watch.newest(moment)
        until(lambda: site.watch.newest(moment) > begun, f"a batch is {moment}", every_s=MOMENT_S)
        killed.kill()
        shutil.rmtree(site.installation.checkpoint)
        mistaken = site.start()
        assert mistaken.wait_end() == CheckpointForeign.exit_code, mistaken.said()[-2000:]
        shutil.rmtree(site.installation.checkpoint, ignore_errors=True)
        site.start("--adopt").wait_ready()
        site.finish()
    found, counts = differences(site.installation, site.load.traffic.documents)
    assert not found, "\n".join(found)
    assert counts["alerts"] > 0
