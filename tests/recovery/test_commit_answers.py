"""The detector does not learn whether the broker has committed a batch: no output is lost or written twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from tests.support.kafka.commit_proxy import CommitFault, CommitProxy, broker_behind_a_proxy
from tests.support.kafka.own_topics import own_topics
from tests.support.recovery.site import Site
from tests.support.waiting import MOMENT_S, until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(600)]

ROWS = 200


def test_outputs_are_right_if_the_answer_to_a_commit_is_lost(project: Project, tmp_path: Path) -> None:
    with (
        broker_behind_a_proxy(tmp_path / "broker", project) as (broker, proxy),
        own_topics(broker, project) as topics,
    ):
        with Site(tmp_path / "site", project, topics, seed=31).working(ROWS) as site:
            site.start()
            site.await_work()
            for fault in (CommitFault.CUT_BEFORE, CommitFault.CUT_AFTER):
                cut(site, proxy, fault)
            assert len(site.starts) == 1, "the client repeats the commit"
            for fault in (CommitFault.HOLD_BEFORE, CommitFault.HOLD_AFTER):
                kill_in_a_commit(site, proxy, fault)
            site.finish()
        site.check_outputs()


def cut(site: Site, proxy: CommitProxy, fault: CommitFault) -> None:
    """Cut the connection of a commit, before or after the broker has it."""
    reach(proxy, fault)
    site.await_work_supervised()


def kill_in_a_commit(site: Site, proxy: CommitProxy, fault: CommitFault) -> None:
    """Kill the detector while it waits for the answer to a commit, which the broker has or has not received."""
    site.load.allow(ROWS)
    reach(proxy, fault)
    in_commit = site.watch.newest("sent")
    if fault is CommitFault.HOLD_AFTER:
        until(lambda: site.watch.batch_id >= in_commit, "the batch is committed")
    else:
        assert site.watch.batch_id < in_commit, "the batch is not committed"
    site.starts[-1].kill()
    proxy.fault = CommitFault.NONE
    site.start()
    site.await_work()


def reach(proxy: CommitProxy, fault: CommitFault) -> None:
    """Return once a commit has met the fault."""
    known, proxy.fault = proxy.reached, fault
    until(lambda: proxy.reached > known, f"a commit meets {fault}", every_s=MOMENT_S)
