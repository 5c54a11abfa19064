"""The agent's metrics, in the format of Prometheus."""

from __future__ import annotations

from prometheus_client import Enum, Gauge

from fraud_rules.deploy.attempt import AgentStatus, AttemptPhase
from fraud_rules.kafka.decoding import UNREADABLE_RECORDS
from fraud_rules.runtime.clock import MS_PER_S
from fraud_rules.runtime.metrics_server import process_registry

_NONE = "NONE"


class AgentMetrics:
    """The gauges of one agent, as of its last heartbeat in Kafka."""

    def __init__(self, detector: str) -> None:
        self.registry = process_registry()
        self.registry.register(UNREADABLE_RECORDS)
        labels = {"detector": detector}

        def gauge(name: str, about: str) -> Gauge:
            return Gauge(f"fraud_agent_{name}", about, [*labels], registry=self.registry).labels(**labels)

        self._beat = gauge("heartbeat_timestamp_seconds", "Time of the last written heartbeat")
        self._executed = gauge("executed_epoch", "Epoch of the newest intent that the agent has executed")
        self._batches = gauge("attempt_batches", "Batches that the newest attempt has written")
        states = [_NONE, *AttemptPhase]
        phase = Enum(
            "fraud_agent_attempt_phase", "Phase of the newest attempt", [*labels], registry=self.registry, states=states
        )
        self._phase = phase.labels(**labels)

    def set_status(self, status: AgentStatus) -> None:
        """Set the gauges to a written heartbeat."""
        self._beat.set(status.at_ms / MS_PER_S)
        self._executed.set(status.executed_epoch)
        self._batches.set(0 if status.current is None else status.current.batches_committed)
        self._phase.state(_NONE if status.current is None else status.current.phase.value)
