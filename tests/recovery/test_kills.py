"""Outputs are complete, exact and without duplicates after any kill.

`FRAUD_KILLS` is the number of kills (3 by default: a driver, a worker and a broker), in rounds of 20. Each round has
its own detector and topics, and with more kills also a stop by a rule and jobs for warm-ups. `FRAUD_SEED` selects the
kills. `test_interrupted_attempts` shows by default that a repeated batch adds a history once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import topic_ends
from tests.support.kafka.own_broker import running_broker
from tests.support.kafka.own_topics import OwnTopics, create_topics
from tests.support.processes.running_detector import Installation
from tests.support.recovery.kills import Experiment, plans
from tests.support.recovery.load import Load
from tests.support.recovery.rule_members import schema_with_account
from tests.support.recovery.traffic import FUTURE_TOLERANCE_MS, OUT_OF_ORDERNESS_MS
from tests.support.recovery.verdict import differences
from tests.support.recovery.warm_ups import WarmUpJobs
from tests.support.recovery.watch import Watch

pytestmark = [pytest.mark.recovery, pytest.mark.timeout(3_600)]

SEED = int(os.environ.get("FRAUD_SEED") or random.randrange(1_000_000))
FEW_KILLS = 3
KILLS = int(os.environ.get("FRAUD_KILLS", FEW_KILLS))
A_ROUND = 20
ROWS_A_KILL = 150
RATE = 60.0


@pytest.fixture(scope="module")
def own_broker(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that these tests may kill."""
    with running_broker(tmp_path_factory.mktemp("own-broker"), project) as broker:
        yield broker


@pytest.fixture
def own_topics(own_broker: Broker, project: Project) -> OwnTopics:
    """All declared topics on that broker, for one round."""
    return create_topics(own_broker, project)


@pytest.mark.parametrize("number", range(-(-KILLS // A_ROUND)))
def test_the_outputs_equal_those_of_the_oracle(
    number: int, own_broker: Broker, own_topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    seed = SEED + number
    print(f"\nFRAUD_SEED={SEED}, round {number} with seed {seed}")  # noqa: T201
    installation = Installation.make(
        tmp_path,
        project,
        own_topics,
        schema_with_account(tmp_path, project),
        limits={"detail_minutes": 0},
        max_out_of_orderness_ms=OUT_OF_ORDERNESS_MS,
        future_tolerance_ms=FUTURE_TOLERANCE_MS,
        tick_ms=1_000,
    )
    names = own_topics.names

    with (
        Watch(installation) as watch,
        Load(own_topics, seed, RATE, warm_ups=KILLS > FEW_KILLS) as load,
        WarmUpJobs(installation, seed) as jobs,
        Experiment(installation, own_broker, watch, load) as experiment,
    ):
        experiment.run(plans(seed, min(A_ROUND, KILLS - number * A_ROUND)), ROWS_A_KILL)
        if KILLS > FEW_KILLS:
            experiment.stop_by_rule()
        load.finish()
        transactions = topic_ends(own_topics.kafka, names.transactions)
        rules = topic_ends(own_topics.kafka, names.rules)
        experiment.drain(lambda: watch.ends == transactions and watch.rules_end == rules[0])
    print("\n".join(experiment.story.lines()))  # noqa: T201
    found, counts = differences(installation, load.traffic.documents)
    print(counts, dict(jobs.ends))  # noqa: T201
    assert not found, "\n".join([f"seed {seed}", *found])
    progress = installation.progress()
    assert all(each.cpu_ns is not None for each in progress)
