"""Everything a demo consists of: broker, agent and Airflow, each of which the next demo can stop."""

from __future__ import annotations

import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from fraud_demo.airflow import PORT_VARIABLE as AIRFLOW_PORT_VARIABLE
from fraud_demo.airflow import AirflowSite, LocalAirflow
from fraud_demo.children import Child
from fraud_demo.steering import VARIABLE as STEERING_VARIABLE
from fraud_rules.cli.configured import Configured
from fraud_rules.configuration.project import port_setting
from fraud_rules.deploy.deployment_log import append_intent, read_deployment, read_intent_log
from fraud_rules.deploy.intent import Intent, IntentKind
from fraud_rules.errors import DetectorFailed
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import CONTROLLER_PORT_VARIABLE, PORT_VARIABLE, Broker, check_free
from fraud_rules.kafka.declared import load_topics
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.process import ProcessHandle, end_tree

__all__ = ["Places", "Site"]

PASSWORD = "demo"  # noqa: S105 -- known on purpose, and printed; Airflow listens on loopback only

_AGENT = ("-m", "fraud_rules.cli", "agent", "run", "--drain-on-exit", "--drain-s=20")
_DRAIN_S = 60.0
_GRACE_S = 5.0
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Places:
    """Where a demo keeps things; everything but the logs is made anew by each."""

    home: Path
    logs: Path

    @property
    def checkpoint(self) -> Path:
        """The detector's checkpoint."""
        return self.home / "checkpoint"

    @property
    def steering(self) -> Path:
        """Where the pages leave what they wish of the traffic."""
        return self.home / "steering"

    @property
    def archive(self) -> Path:
        """The archive: of this demo's Kafka, which no later demo goes on with."""
        return self.home / "archive"

    @property
    def recording(self) -> Path:
        """What `fraud replay` recomputes the run from."""
        return self.home / "recording.json"


class Site:
    """One installation under var/demo. What is started is registered to be stopped, in reverse.

    `agent_prefix` goes before the agent's command, as for a container of its own.
    """

    def __init__(self, context: Configured, agent_prefix: Sequence[str] = ()) -> None:
        self.places = Places(context.project.var / "demo", context.project.var / "log")
        self._context = context
        port = port_setting(PORT_VARIABLE, 9092)
        controller_port = port_setting(CONTROLLER_PORT_VARIABLE, port + 1 if port < 65_535 else port - 1)
        self.broker = Broker(self.places.home / "broker", port, controller_port, context.project)
        self.airflow = LocalAirflow(self._airflow_site())
        self.agent = Child(
            "agent",
            [*agent_prefix, sys.executable, *_AGENT, f"--bootstrap={self.broker.bootstrap}"],
            f"--home={self.places.home / 'agent'}",
            self.places.logs / "agent.log",
        )

    def stop_left_over(self) -> list[str]:
        """Stop what an earlier demo left running; what that was. Supervisors go first, so that nobody restarts it."""
        stopped = {
            "Airflow": self.airflow.stop(),
            "agent": self.agent.stop_left_over(),
            "detector": self.stop_detector(),
            "broker": self.places.home.is_dir() and self.broker.stop(),
        }
        return [name for name, was_running in stopped.items() if was_running]

    def start(self, stack: ExitStack, say: Callable[[str], None]) -> None:
        """Bring everything up, on empty places; return once Airflow is being started."""
        shutil.rmtree(self.places.home, ignore_errors=True)
        self.places.home.mkdir(parents=True)
        for port in self.airflow.site.ports:
            check_free(port, AIRFLOW_PORT_VARIABLE)
        began_s = time.monotonic()
        # Undone in reverse: first who looks after the detector, then who runs it.
        for stop in (self.broker.stop, self.agent.stop, self.airflow.stop):
            stack.callback(stop)
        airflow = _InBackground(self._start_airflow)  # it needs a while, and Kafka only after that
        self.broker.start()
        say(f"broker at {self.broker.bootstrap} ({time.monotonic() - began_s:.0f} s)")
        declared = load_topics(self._context.project.config / "topics.yaml")
        topic_admin.apply(self.broker.kafka, declared)
        self.agent.start()
        airflow.wait()
        say(f"{len(declared)} topics, agent, Airflow's components ({time.monotonic() - began_s:.0f} s)")

    def _start_airflow(self) -> None:
        self.airflow.prepare()
        self.airflow.start()

    def stop_detector(self) -> bool:
        """End the detector on this checkpoint, whoever has started it. False when there was none."""
        return end_tree(ProcessHandle.find(f"--checkpoint={self.places.checkpoint}"), _GRACE_S)

    def check(self) -> None:
        """Raise when something that should run has ended."""
        self.agent.check()
        self.airflow.check()

    def drain(self) -> None:
        """Ask for the detector to stop after the batch in hand, and return once it has. Raises DetectorFailed."""
        topics, kafka, detector = self._context.settings.topics, self.broker.kafka, self._context.settings.detector
        log = read_intent_log(kafka, topics.detector_intents, detector)
        if log.newest is None or log.newest.intent.kind is IntentKind.DRAIN:
            return
        intent = Intent(
            detector=detector,
            kind=IntentKind.DRAIN,
            attempt_id=uuid.uuid4().hex[:12],
            after=log.epoch,
            reason="the demo ends",
            requested_by="drain by demo",
            supervisor="demo",
            requested_ms=now_ms(),
        )
        epoch = append_intent(kafka, topics.detector_intents, intent).epoch
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline:
            attempt = read_deployment(kafka, topics.detector_attempts, detector).of_epoch(epoch)
            if attempt is not None and attempt.status.phase.is_terminal:
                return
            self.agent.check()
            time.sleep(_LOOK_S)
        raise DetectorFailed(f"the detector was not drained within {_DRAIN_S:g} s (log: {self.agent.log})")

    def _airflow_site(self) -> AirflowSite:
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": self.broker.bootstrap}}
        spark = {"conn_type": "spark", "host": "local[2,4]", "extra": {"checkpoint": str(self.places.checkpoint)}}
        return AirflowSite(
            home=self.places.home / "airflow",
            project=self._context.project,
            port=port_setting(AIRFLOW_PORT_VARIABLE, 8080),
            password=PASSWORD,
            connections={"fraud_kafka": kafka, "spark_default": spark},
            variables={"fraud_archive": str(self.places.archive)},
            surroundings={STEERING_VARIABLE: str(self.places.steering)},
        )


class _InBackground:
    """A call in a thread; `wait` raises what it raised."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 -- handed to whoever waits
            self._failure = error
