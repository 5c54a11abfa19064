"""The host of a killed detector is lost: a start on an empty host continues after the last output."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from tests.support.kafka.own_topics import OwnTopics
from tests.support.recovery.site import Site
from tests.support.waiting import MOMENT_S, until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(900)]

ROWS = 600


@pytest.mark.parametrize("moment", ["sent", "committed"])
def test_a_detector_continues_on_an_empty_host(
    moment: str, project: Project, topics: OwnTopics, tmp_path: Path
) -> None:
    with Site(tmp_path, project, topics, seed=21).working(ROWS) as site:
        killed = site.start()
        site.await_work()
        begun = site.watch.newest(moment)
        until(lambda: site.watch.newest(moment) > begun, f"a batch is {moment}", every_s=MOMENT_S)
        killed.kill()
        shutil.rmtree(site.installation.home / "tmp")
        (site.installation.home / "tmp").mkdir()
        site.start().wait_ready()
        site.finish()
    site.check_outputs()
