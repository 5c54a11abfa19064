"""Three brokers on this machine, with replication 3 and `min.insync.replicas` 2."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import HOST, Broker
from fraud_rules.kafka.connection import KafkaConnection
from tests.support.ports import free_ports
from tests.support.waiting import until

_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
_SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "5000",
    # Retention acts within seconds.
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "log.segment.delete.delay.ms": "100",
}


class ClusterNode(Broker):
    """One of the brokers. `voters` are host and port of all controllers, by node."""

    def __init__(self, node: int, voters: dict[int, int], home: Path, port: int, project: Project) -> None:
        super().__init__(home, port, voters[node], project)
        self.node = node
        self._voters = voters

    def _configure(self, data: Path) -> Path:
        path = super()._configure(data)
        voters = ",".join(f"{node}@{HOST}:{port}" for node, port in self._voters.items())
        own = {**_SETTINGS, "node.id": str(self.node), "controller.quorum.voters": voters}
        kept = [line for line in path.read_text(encoding="utf-8").splitlines() if line.partition("=")[0] not in own]
        path.write_text("\n".join([*kept, *(f"{name}={value}" for name, value in own.items())]) + "\n", "utf-8")
        return path

    def _format(self) -> None:
        if self._data.is_dir():
            return
        options = (f"--cluster-id={_CLUSTER_ID}", f"--config={self._configure(self._data)}")
        subprocess.run(self._java("kafka.tools.StorageTool", "format", *options), check=True, capture_output=True)


class BrokerCluster:
    """The brokers by node id: 1, 2 and 3."""

    def __init__(self, home: Path, project: Project) -> None:
        controllers = dict(zip((1, 2, 3), free_ports(3), strict=True))
        ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
        self.nodes = {
            node: ClusterNode(node, controllers, home / str(node), ports[node], project) for node in controllers
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def kafka(self) -> KafkaConnection:
        return KafkaConnection(self.bootstrap)

    def start(self, *nodes: int) -> None:
        """Start these brokers, or all, at the same time: one alone has no quorum."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: self.nodes[node].start(240), nodes or self.nodes))

    def kill(self, *nodes: int) -> None:
        for node in nodes:
            self.nodes[node].kill()

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The node id of a partition's leader, -1 if it has none."""
        return self._partitions(topic)[partition][0]

    def await_replicas(self, topic: str) -> None:
        """Wait until all three replicas of each partition of a topic are in sync."""
        until(
            lambda: all(in_sync == 3 for _, in_sync in self._partitions(topic)), f"the replicas of {topic} are in sync"
        )

    def _partitions(self, topic: str) -> list[tuple[int, int]]:
        """Leader and number of replicas in sync, by partition."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        (answer,) = admin.describe_topics(TopicCollection([topic]), request_timeout=15).values()
        return [(each.leader.id if each.leader else -1, len(each.isr)) for each in answer.result().partitions]


@contextmanager
def broker_cluster(home: Path, project: Project) -> Iterator[BrokerCluster]:
    """A running cluster. It ends with the block."""
    cluster = BrokerCluster(home, project)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill(*cluster.nodes)
