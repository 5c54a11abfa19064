"""Three brokers on this machine, or on three hosts, with replication 3 and `min.insync.replicas` 2; one broker on a
host."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import HOST, Broker
from fraud_rules.kafka.connection import KafkaConnection
from tests.support.hosts import Host
from tests.support.ports import free_ports
from tests.support.waiting import until

_NODES = (1, 2, 3)
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
    """One of the brokers. `places` are address, port and port of the controller of all brokers, by node. `before` are
    words before its command, which run it on another host. `settings` override those of a lone broker."""

    def __init__(
        self,
        node: int,
        places: dict[int, tuple[str, int, int]],
        home: Path,
        project: Project,
        before: Sequence[str],
        settings: Mapping[str, str] = _SETTINGS,
    ) -> None:
        self._address, port, controller = places[node]
        super().__init__(home, port, controller, project)
        self.node = node
        self._places = places
        self._before = before
        self._settings = settings

    @property
    def bootstrap(self) -> str:
        return f"{self._address}:{self.port}"

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [*self._before, *super()._java(main, *arguments)]

    def _configure(self, data: Path) -> Path:
        path = super()._configure(data)
        voters = ",".join(f"{node}@{address}:{port}" for node, (address, _, port) in self._places.items())
        own = {**self._settings, "node.id": str(self.node), "controller.quorum.voters": voters}
        text = path.read_text(encoding="utf-8").replace(f"//{HOST}:", f"//{self._address}:")
        kept = [line for line in text.splitlines() if line.partition("=")[0] not in own]
        path.write_text("\n".join([*kept, *(f"{name}={value}" for name, value in own.items())]) + "\n", "utf-8")
        return path

    def _format(self) -> None:
        if self._data.is_dir():
            return
        options = (f"--cluster-id={_CLUSTER_ID}", f"--config={self._configure(self._data)}")
        subprocess.run(self._java("kafka.tools.StorageTool", "format", *options), check=True, capture_output=True)


class BrokerCluster:
    """The brokers by node id: 1, 2 and 3."""

    def __init__(self, nodes: dict[int, ClusterNode]) -> None:
        self.nodes = nodes

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
    places = {node: (HOST, *free_ports(2)) for node in _NODES}
    cluster = BrokerCluster({node: ClusterNode(node, places, home / str(node), project, ()) for node in _NODES})
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill(*cluster.nodes)


def brokers_on(hosts: Sequence[Host], project: Project) -> BrokerCluster:
    """A running cluster with a broker on each of three hosts. It ends with them."""
    port, controller = free_ports(2)
    places = {node: (host.address, port, controller) for node, host in zip(_NODES, hosts, strict=True)}
    nodes = {
        node: ClusterNode(node, places, host.folder / "broker", project, host.words())
        for node, host in zip(_NODES, hosts, strict=True)
    }
    cluster = BrokerCluster(nodes)
    cluster.start()
    return cluster


def broker_on(host: Host, project: Project) -> Broker:
    """A running broker on a host, with one replica of everything. It ends with the host."""
    port, controller = free_ports(2)
    broker = ClusterNode(
        _NODES[0], {_NODES[0]: (host.address, port, controller)}, host.folder / "broker", project, host.words(), {}
    )
    broker.start(240)
    return broker
