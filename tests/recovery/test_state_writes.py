"""The two ways in which a batch runs, and the two ways in which its state is written, give the outputs of the oracle.

A kill between a task's chunks and the driver's transaction leaves chunks that no head names, and changes no output.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.timed_topics import Logs, timed_topics
from tests.support.processes.constants import with_constants
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.recovery.chunk_kill import kill_after_a_chunk
from tests.support.recovery.rule_members import schema_with_account
from tests.support.recovery.site import Site
from tests.support.recovery.traffic import FUTURE_TOLERANCE_MS, OUT_OF_ORDERNESS_MS, Traffic
from tests.support.recovery.verdict import differences
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(900)]

KILLS, HITS = 8, 3
START_MS = 1_700_000_000_000


def test_a_kill_between_the_chunks_and_the_transaction_changes_no_output(
    project: Project, topics: OwnTopics, tmp_path: Path
) -> None:
    site = Site(tmp_path, project, topics, seed=11, key_groups=4)
    site.installation = with_constants(site.installation, worker__state_log__LARGE_BYTES=1)
    hits = 0
    with site.working(100):
        for _ in range(KILLS):
            site.start().wait_ready()
            reached = site.watch.batch_id
            until(lambda reached=reached: site.watch.batch_id > reached + 1, "batches are written")
            site.load.allow(100)
            hits += kill_after_a_chunk(site.starts[-1], topics)
            if hits >= HITS:
                break
        assert hits >= HITS, "the kills came too late"
        site.start()
        site.finish()
    site.check_outputs()


IN_TURN, LARGE = "one task and many tasks in turn", 100
WAYS: dict[str, dict[str, object]] = {
    "one task": {"driver__batch_jobs__LARGE_BATCH_TRANSACTIONS": sys.maxsize},
    "many tasks": {"driver__batch_jobs__LARGE_BATCH_TRANSACTIONS": 1},
    "many tasks, which write the chunks": {
        "driver__batch_jobs__LARGE_BATCH_TRANSACTIONS": 1,
        "worker__state_log__LARGE_BYTES": 1,
    },
    IN_TURN: {"driver__batch_jobs__LARGE_BATCH_TRANSACTIONS": LARGE},
}


@pytest.mark.parametrize("way", WAYS)
def test_small_and_large_batches_give_the_outputs_of_the_oracle(
    way: str, broker: Broker, project: Project, tmp_path: Path
) -> None:
    settings = {"max_out_of_orderness_ms": OUT_OF_ORDERNESS_MS, "future_tolerance_ms": FUTURE_TOLERANCE_MS}
    schema = schema_with_account(tmp_path, project)
    made = Installation.make(
        tmp_path, project, timed_topics(broker, project), schema, tick_ms=500, key_groups=4, **settings
    )
    installation = with_constants(made, **WAYS[way])
    traffic, logs, now_ms = Traffic(21), Logs(made.topics), START_MS
    for _ in range(12):
        logs.append_rule(traffic.rule(), now_ms)
    logs.flush()
    detector = RunningDetector(installation)
    try:
        detector.wait_ready()
        for count in (150, 20) * 8:
            for _ in range(count):
                now_ms += 20
                partition, record = traffic.transaction(now_ms)
                logs.append(record, now_ms, partition)
            logs.flush()
            until(lambda: installation.has_read(logs.ends, logs.rules_end), "everything is read")
        assert detector.stop() == 0, detector.said()[-2000:]
    finally:
        detector.kill()
    found, counts = differences(installation, traffic.documents)
    assert not found, "\n".join(found)
    assert counts["alerts"] > 50
    if way == IN_TURN:
        assert {each.rows >= LARGE for each in installation.progress() if each.rows} == {True, False}
