"""The components of a demo: broker, agent and Airflow. The next demo can stop each of them."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from fraud_demo.children import Child
from fraud_demo.start.past_days import ARGUMENT as PAST_DAYS
from fraud_demo.start.people import ROLES
from fraud_demo.start.shell import write_environment
from fraud_demo.steering import VARIABLE as STEERING_VARIABLE
from fraud_local.airflow import PORT_VARIABLE as AIRFLOW_PORT_VARIABLE
from fraud_local.airflow import AirflowSite, LocalAirflow
from fraud_local.unpaused import Unpausing
from fraud_rules.cli.archive import ARCHIVE_VARIABLE
from fraud_rules.cli.configured import CommandContext
from fraud_rules.cli.options import INTENT_KEYS_VARIABLE, KEYS_FILE
from fraud_rules.configuration.detector_options import BOOTSTRAP_VARIABLE
from fraud_rules.configuration.project import HOME_VARIABLE, Project, port_setting
from fraud_rules.deploy.deployment_log import append_intent, read_deployment, read_intent_log
from fraud_rules.deploy.intent import Intent, IntentKind
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.errors import DetectorFailed
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import CONTROLLER_PORT_VARIABLE, OPTIMIZED, PORT_VARIABLE, Broker, check_free
from fraud_rules.kafka.declared import load_topics
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.process import ProcessHandle, end_tree
from fraud_rules.runtime.retry import wait_for

PASSWORD = "demo"  # noqa: S105 -- public on purpose and printed; Airflow listens only on loopback

_FOUR_EYES = "FRAUD_CONTROL_FOUR_EYES"
_AIRFLOW_ROLE = "viewer"
_AGENT = ("-m", "fraud_rules.cli", "detector", "agent", "--drain-on-exit")
_DRAINED_WITHIN = "FRAUD_AGENT_DRAIN_MS=20000"
_NICE = 10
_DRAIN_S = 60.0
_COMMAND = "demo"
"""An argument of the command, which identifies its process."""
_COMMAND_GRACE_S = 120.0  # the command stops the agent after its current batch
_GRACE_S = 5.0
_POLL_S = 0.2


class DemoPaths:
    """The paths of a demo. Each demo recreates everything below `home`; the logs and the step times stay."""

    def __init__(self, home: Path, logs: Path) -> None:
        self.home, self.logs = home, logs
        self.installation = home / "installation"  # the project, as the components of the demo find it
        self.steering = home / "steering"  # the folder in which the pages request changes of the traffic
        self.archive = home / "archive"  # of this demo's Kafka: no later demo continues it
        self.past_days_log = logs / "demo-past-days.log"
        self.step_times = home.with_name("demo-step-times.json")  # how long the steps of the last start took
        self.agent = home / "agent"
        self.intent_keys = self.agent / KEYS_FILE  # the key that Airflow and the agent share
        self.command = home / "command.json"  # the handle of the command that runs the demo
        self.environment = home / "environment"  # makes the commands of a shell use the demo
        self.recording = home / "recording.json"  # for `fraud streams replay`

    @classmethod
    def of(cls, project: Project) -> DemoPaths:
        """The paths below a project."""
        return cls(project.var / "demo", project.var / "log")


class DemoSite:
    """One installation in var/demo. A stack stops the started components in reverse order.

    `agent_prefix` precedes the agent's command, for example to run it in a container. `places` are those below the
    context's project, unless given.
    """

    def __init__(
        self, context: CommandContext, agent_prefix: Sequence[str] = (), places: DemoPaths | None = None
    ) -> None:
        self.places = places or DemoPaths.of(context.project)
        self._context = context
        home = f"{HOME_VARIABLE}={context.project.root}"
        port = port_setting(PORT_VARIABLE, 9092)
        controller_port = port_setting(CONTROLLER_PORT_VARIABLE, port + 1 if port < 65_535 else port - 1)
        self.broker = Broker(self.places.home / "broker", port, controller_port, context.project, OPTIMIZED)
        self._intent_key = secrets.token_hex(32)
        self.airflow = LocalAirflow(self._airflow_site())
        self._unpausing = Unpausing(self.airflow.site)
        self.agent = Child(
            "agent",
            [
                "env",
                home,
                _DRAINED_WITHIN,
                *agent_prefix,
                sys.executable,
                *_AGENT,
                f"--bootstrap={self.broker.bootstrap}",
                f"--intent-keys={self.places.intent_keys}",
            ],
            f"--home={self.places.agent}",
            self.places.logs / "agent.log",
        )
        self.past_days = Child(
            "archiving of past days",
            ["env", home, "nice", f"-n{_NICE}", sys.executable, "-m", "fraud_demo.start.past_days"],
            f"{PAST_DAYS}{self.places.archive}",
            self.places.past_days_log,
        )

    def stop_left_over(self) -> list[str]:
        """Stop an earlier demo, and the components that it left behind. Return their names.

        The command is stopped first and as by Ctrl-C: it would take the end of a component for a failure. Supervisors
        are stopped before the detector, because they would restart it.
        """
        stopped = {
            "command": self._stop_command(),
            "Airflow": self.airflow.stop(),
            self.past_days.name: self.past_days.stop_left_over(),
            "agent": self.agent.stop_left_over(),
            "detector": self.stop_detector(),
            "broker": self.places.home.is_dir() and self.broker.stop(),
        }
        return [name for name, was_running in stopped.items() if was_running]

    def clear(self) -> None:
        """Remove the files of an earlier demo."""
        shutil.rmtree(self.places.home, ignore_errors=True)

    def start(self, stack: ExitStack, report: Callable[[str], None]) -> None:
        """Start all components. Return when Airflow has begun to start."""
        IntentKeys.create(self.places.intent_keys, self._intent_key)
        write_environment(self.places.environment, self.airflow.site.environment(), self._for_a_shell())
        command = ProcessHandle.of(os.getpid(), _COMMAND)
        if command is not None:
            command.write(self.places.command)
        check_free(self.airflow.site.port, AIRFLOW_PORT_VARIABLE)
        check_free(self.airflow.site.control_port, AIRFLOW_PORT_VARIABLE)
        began_s = time.monotonic()
        # The stack stops the supervisor of the detector before the agent that runs it.
        for stop in (self.broker.stop, self.agent.stop, self.airflow.stop, self.past_days.stop):
            stack.callback(stop)
        self.past_days.start()
        with ThreadPoolExecutor(1) as pool:  # Airflow's start takes a while and needs Kafka only at the end
            airflow = pool.submit(self._start_airflow)
            self.broker.start()
            report(f"broker at {self.broker.bootstrap} ({time.monotonic() - began_s:.0f} s)")
            declared = load_topics(self._context.project.config / "topics.yaml")
            topic_admin.apply(self.broker.kafka, declared)
            self.agent.start()
            airflow.result()
        stack.callback(self._unpausing.stop)
        self._unpausing.start()
        report(f"{len(declared)} topics, agent, Airflow's components ({time.monotonic() - began_s:.0f} s)")

    def _for_a_shell(self) -> dict[str, str]:
        return {
            BOOTSTRAP_VARIABLE: self.broker.bootstrap,
            ARCHIVE_VARIABLE: str(self.places.archive),
            INTENT_KEYS_VARIABLE: str(self.places.intent_keys),
            "FRAUD_CONTROL_URL": self.airflow.site.url,
        }

    def _start_airflow(self) -> None:
        self.airflow.prepare()
        self.airflow.start()

    def _stop_command(self) -> bool:
        command = ProcessHandle.read(self.places.command)
        return command is not None and command.pid != os.getpid() and command.end(_COMMAND_GRACE_S)

    def stop_detector(self) -> bool:
        """End the detector of this demo, regardless of its starter. Return False if there was none."""
        return end_tree(ProcessHandle.find(f"--settings={self.places.home}/"), _GRACE_S)

    def check(self) -> None:
        """Raise if a component has ended."""
        self.agent.check()
        self.airflow.check()
        self._unpausing.check()

    def drain(self) -> None:
        """Stop the detector after its current batch, and wait for its end. Raises DetectorFailed."""
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
        keys = IntentKeys.load(self.places.intent_keys)
        epoch = append_intent(kafka, topics.detector_intents, intent, keys).epoch

        def is_drained() -> bool:
            attempt = read_deployment(kafka, topics.detector_attempts, detector).of_epoch(epoch)
            if attempt is not None and attempt.status.phase.is_terminal:
                return True
            self.agent.check()
            return False

        def timed_out() -> DetectorFailed:
            return DetectorFailed(f"the detector was not drained within {_DRAIN_S:g} s (log: {self.agent.log})")

        wait_for(is_drained, within_s=_DRAIN_S, every_s=_POLL_S, timed_out=timed_out)

    def _airflow_site(self) -> AirflowSite:
        spark = {"conn_type": "spark", "host": "local[2,4]"}
        key = {"conn_type": "generic", "password": self._intent_key}
        port = port_setting(AIRFLOW_PORT_VARIABLE, 8080)
        return AirflowSite(
            home=self.places.home / "airflow",
            project=self._context.project,
            port=port,
            control_port=port + 3,
            password=PASSWORD,
            bootstrap=self.broker.bootstrap,
            archive=self.places.archive,
            connections={"spark_default": spark, "fraud_intent_key": key},
            # A second person approves each change of an active rule, which the demo has the users to show.
            process_variables={STEERING_VARIABLE: str(self.places.steering), _FOUR_EYES: "true"},
            users=dict.fromkeys(ROLES, _AIRFLOW_ROLE),
        )
