"""A detector on three brokers: leaders and a majority die, a topic grows, and retention removes unread records."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # stub
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from fraud_rules.configuration.project import Project
from fraud_rules.errors import OffsetsLost
from fraud_rules.kafka.consume import topic_ends, topic_starts
from tests.support.kafka.cluster import BrokerCluster, broker_cluster
from tests.support.kafka.own_topics import own_topics
from tests.support.kafka.records import produce
from tests.support.recovery.site import LOST_BROKER, Site
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(1_800)]

ROWS = 400


class ClusterSite(Site):
    """An installation on a cluster."""

    def __init__(self, cluster: BrokerCluster, home: Path, project: Project, topics: object) -> None:
        super().__init__(home, project, topics, seed=17)
        self.cluster = cluster
        self.names = self.installation.topics.names

    def kill_the_leader(self, topic: str) -> None:
        """Kill the leader of a topic. The same detector continues on the other two brokers."""
        leader = self.cluster.leader_of(topic)
        self.cluster.kill(leader)
        self.await_work_supervised()
        assert self.cluster.leader_of(topic) not in (leader, -1)
        self.cluster.start(leader)
        self.cluster.await_replicas(topic)

    def kill_two(self) -> None:
        """Kill two brokers, so that no write is accepted, and bring them back."""
        self.cluster.kill(1, 2)
        detector = self.starts[-1]
        assert detector.wait_end() in LOST_BROKER, detector.said()[-2000:]
        detector.kill()
        self.cluster.start(1, 2)
        self.cluster.await_replicas(self.names.transactions)
        self.start()
        self.await_work()

    def add_a_partition(self) -> None:
        """Add a third partition to the transactions, and wait until the detector has read records of it."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        for done in admin.create_partitions([NewPartitions(self.names.transactions, 3)]).values():
            done.result()
        self.load.traffic.partitions = 3
        until(lambda: self.watch.ends.get(2, 0) > 0, "the detector reads the new partition", 300)

    def let_retention_pass(self) -> None:
        """Write records that the stopped detector has not read, and wait until retention has removed them."""
        for partition in range(3):
            produce(self.cluster.bootstrap, self.names.transactions, [b"{}"] * 10, partition=partition)
        ends = topic_ends(self.cluster.kafka, self.names.transactions)
        change = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, self.names.transactions, incremental_configs=[change])
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        for done in admin.incremental_alter_configs([topic]).values():
            done.result()
        until(lambda: topic_starts(self.cluster.kafka, self.names.transactions) == ends, "retention has removed all")


def test_alerts_are_right_on_three_brokers_through_failures(project: Project, tmp_path: Path) -> None:
    with (
        broker_cluster(tmp_path / "cluster", project) as cluster,
        own_topics(cluster, project) as topics,
        (site := ClusterSite(cluster, tmp_path / "site", project, topics)).working(ROWS),
    ):
        site.start()
        site.await_work()
        site.kill_the_leader(site.names.transactions)
        site.kill_the_leader(site.names.detector_state)
        site.kill_two()
        site.add_a_partition()
        site.finish()
        counts = site.check_outputs()
        print(f"three brokers: {counts}, {len(site.starts)} starts")  # noqa: T201 - the figures of docs/reliability.md

        site.let_retention_pass()
        refused = site.start()
        assert refused.wait_end() == OffsetsLost.exit_code, refused.said()[-2000:]
        assert f"{site.names.transactions}-2" in refused.said()
