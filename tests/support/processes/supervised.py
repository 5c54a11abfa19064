"""A detector under supervision as in production: broker, agent, real Airflow components, and an outside observer."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from fraud_demo.published import read_published
from fraud_demo.sender import Sender
from fraud_demo.site import PASSWORD, DemoSite
from fraud_demo.traffic import TrafficSettings
from fraud_demo.verdict import RunVerdict as DemoVerdict
from fraud_demo.verdict import SentTraffic, check_run
from fraud_local.airflow import Component
from fraud_local.users import LocalUsers
from fraud_ops.observer import DetectorObserver
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.attempt import Attempt
from fraud_rules.kafka.consume import topic_ends
from fraud_rules.logs.recorder import record_run
from fraud_rules.replay.replay import replay_recording
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.process import await_ends
from tests.support.ports import free_ports
from tests.support.processes.healthy import await_healthy
from tests.support.processes.signals import send_signal
from tests.support.waiting import until

FOLDERS = ("dags", "docs", "lib", "plugins", "spark_jobs")
RUN_S = 600.0
_LOOK_S = 0.25  # each observation costs requests to Kafka or to Airflow
_LOG_LINES = 25
TRAFFIC = TrafficSettings(
    rate_per_s=10, seconds=None, payers=20_000, seed=7, out_of_order=0.02, late=0.002, duplicates=0.005, malformed=0.005
)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The seconds from the loss of a driver to the next intent, and to the next healthy detector."""

    seen_s: float
    healthy_s: float


class Supervised:
    """A running installation. Its detector was healthy after `healthy_s`. `api` is Airflow's REST API."""

    def __init__(self, site: DemoSite, context: CommandContext) -> None:
        self.site = site
        self.context = context
        self.healthy_s = 0.0
        self.api = Api(site.airflow.site.url)
        self.sender = Sender(site.broker.kafka, context.settings.topics.transactions, TRAFFIC)
        self._watch = DetectorObserver(site.broker.kafka, context.settings)

    def look(self) -> DetectorObservation:
        return self._watch.observe()

    def verdict(self) -> Verdict:
        return assess_detector(self.look(), HealthSettings(), now_ms())

    def await_health(self, wanted: Health, timeout_s: float = RUN_S) -> DetectorObservation:
        def reached() -> DetectorObservation | None:
            seen = self.look()
            return seen if assess_detector(seen, HealthSettings(), now_ms()).health is wanted else None

        return until(reached, f"the detector is {wanted}", timeout_s, _LOOK_S)

    def await_after(self, epoch: int, timeout_s: float = RUN_S) -> DetectorObservation:
        """Wait for a healthy attempt of a later intent."""

        def reached() -> DetectorObservation | None:
            seen = self.look()
            later = seen.intents.epoch > epoch and seen.attempt is not None and seen.attempt.status.epoch > epoch
            return (
                seen if later and assess_detector(seen, HealthSettings(), now_ms()).health is Health.HEALTHY else None
            )

        return until(reached, f"a healthy attempt after epoch {epoch}", timeout_s, _LOOK_S)

    def await_payments(self, count: int) -> None:
        """Wait until `count` payments of the traffic are sent and evaluated."""
        until(lambda: self.sender.sent.records >= count, f"{count} payments are sent", RUN_S, _LOOK_S)
        self.await_evaluated()

    def await_rules(self) -> None:
        """Wait until the seed rules are live."""
        found = until(lambda: self.api.runs("fraud_seed_rules"), "the rules are being seeded", RUN_S, _LOOK_S)
        assert self.api.await_run("fraud_seed_rules", found[0]["dag_run_id"]) == "success"

    def await_batches(self, count: int = 2) -> None:
        """Wait for `count` more batches."""
        begun = _batch(self.look())
        until(lambda: _batch(self.look()) >= begun + count, f"{count} more batches", RUN_S, _LOOK_S)

    def await_supervision(self, since_ms: int, timeout_s: float = RUN_S) -> None:
        """Wait until a supervisor has observed the detector after a time."""
        until(lambda: _supervised_ms(self.look()) > since_ms, "a supervisor looks", timeout_s, _LOOK_S)

    def attempt(self) -> Attempt:
        """The attempt of the newest valid intent."""
        attempt = self.look().attempt
        assert attempt is not None
        return attempt

    def driver(self) -> psutil.Process:
        """The detector's driver, found by its command line. Fails unless there is exactly one."""
        marker = f"--settings={self.site.places.home}/"
        found = [process for process in psutil.process_iter() if _has(process, marker)]
        roots = [process for process in found if not _has(process.parent(), marker)]
        assert len(roots) == 1, roots
        return roots[0]

    def members(self) -> list[psutil.Process]:
        """Driver, JVM and Python workers."""
        driver = self.driver()
        return [driver, *driver.children(recursive=True)]

    def lose_driver(self, number: int) -> Replacement:
        """Send a signal to all processes of a driver, wait for its replacement, and resume suspended processes."""
        before, members, began_ms = self.attempt().status, self.members(), now_ms()
        send_signal(members, number)
        seen = self.await_after(before.epoch)
        healthy_ms = now_ms()
        send_signal(members, signal.SIGCONT)
        self.await_batches(3)
        assert self.driver().pid not in {process.pid for process in members}
        assert seen.newest_intent is not None
        return Replacement((seen.newest_intent.append_ms - began_ms) / 1_000, (healthy_ms - began_ms) / 1_000)

    def redeploy(self) -> None:
        """Change a setting that affects no result, and return once a detector with it is healthy."""
        epoch, path = self.attempt().status.epoch, self.context.project.config / "detector.yaml"
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        path.write_text(yaml.safe_dump({**settings, "tick_ms": settings["tick_ms"] - 1}), encoding="utf-8")
        self.await_after(epoch)

    def supervisors(self) -> list[psutil.Process]:
        """The processes of Airflow and of the agent, without the agent's children."""
        agent = [each for each in psutil.process_iter() if _has(each, _agent_home(self.site))]
        return [*self.site.airflow.processes(), *agent]

    def await_evaluated(self) -> None:
        """Wait until the detector has evaluated all present transactions."""
        topic = self.context.settings.topics.transactions
        ends = topic_ends(self.site.broker.kafka, topic)

        def is_read() -> bool:
            progress = self.look().progress
            read = {} if progress is None else progress.progress.ends_of(topic)
            return all(read.get(partition, 0) >= end for partition, end in ends.items())

        until(is_read, "everything is read", RUN_S, _LOOK_S)

    def situation(self) -> str:
        """The unfinished tasks and runs, the components that are not healthy, and the ends of the components' logs."""
        unhealthy = f"not healthy: {', '.join(self.site.airflow.unhealthy()) or 'none'}"
        return "\n".join((*_unfinished(self.api), unhealthy, *_log_ends(self.site.airflow.logs)))

    def check_run(self) -> DemoVerdict:
        """Wait until every record is read, and compare the outputs with the replay of the recorded logs."""
        self.sender.stop()
        self.await_evaluated()
        kafka = self.site.broker.kafka
        recording = record_run(kafka, self.context.settings, self.context.schema)
        answer = replay_recording(recording, self.context.schema, self.context.settings)
        published = read_published(kafka, self.context.settings.topics)
        return check_run(published, answer, SentTraffic(self.sender.sent.records, self.sender.planted_whole))


def _unfinished(api: Api) -> Iterator[str]:
    """The unfinished tasks and runs by Airflow's API, or the reason why it does not list them."""
    states = "&".join(f"state={each}" for each in ("scheduled", "queued", "running", "up_for_retry", "deferred"))
    for path in (f"dags/~/dagRuns/~/taskInstances?{states}", "dags/~/dagRuns?state=queued&state=running"):
        try:
            listed = api.call("GET", path)
        except (AssertionError, httpx.HTTPError) as error:
            yield f"GET {path}: {error!r}"
            continue
        for each in listed.get("task_instances", listed.get("dag_runs", [])):
            since = each["start_date"] or each.get("queued_when") or each.get("queued_at")
            yield f"{each['dag_id']} {each.get('task_id', '(run)')} {each['dag_run_id']}: {each['state']} since {since}"


def _log_ends(folder: Path) -> Iterator[str]:
    for log in sorted(folder.glob("*.log")):
        yield f"-- the end of {log.name}"
        yield from log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]


class Api(LocalUsers):
    """A client of Airflow's REST API, as the demo's user."""

    def __init__(self, url: str) -> None:
        super().__init__(url, PASSWORD)

    def call(self, method: str, path: str, **body: Any) -> Any:
        """Send one request and return the decoded answer.

        A request that Airflow's audit log records is repeated if the log cannot be written. The log waits for SQLite in
        the event loop, and another request that writes at this moment needs the event loop for its commit.
        """
        answer = until(lambda: self._answer(method, path, body), f"Airflow's audit log has {method} {path}")
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content else None

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> httpx.Response | None:
        """The answer to one request; None if Airflow could not write its database."""
        answer = self.send(method, f"/api/v2/{path}", json=body or None)
        is_locked = answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR and "Database error" in answer.text
        return None if is_locked else answer

    def newest_run(self, dag_id: str) -> dict[str, Any]:
        """The run that started last."""
        runs = self.runs(dag_id)
        assert runs, dag_id
        return runs[0]

    def runs(self, dag_id: str, order: str = "-run_after") -> list[dict[str, Any]]:
        """A list with the newest run, or with the first run by another order; empty if there is none."""
        found: list[dict[str, Any]] = self.call("GET", f"dags/{dag_id}/dagRuns?order_by={order}&limit=1")["dag_runs"]
        return found

    def missed_deadlines(self) -> list[dict[str, Any]]:
        """The missed deadlines that Airflow's home page counts."""
        found: list[dict[str, Any]] = self.fetch("/ui/dags/~/dagRuns/~/deadlines?missed=true").json()["deadlines"]
        return found

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """The states of a run's tasks."""
        found = self.call("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {each["task_id"]: each["state"] for each in found}

    def trigger(self, dag_id: str, *, partition: str | None = None, **conf: Any) -> str:
        """Trigger a manual run and return its id."""
        body = {"logical_date": None, "partition_key": partition, "conf": conf}
        run_id: str = self.call("POST", f"dags/{dag_id}/dagRuns", **body)["dag_run_id"]
        return run_id

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """The XCom value of a task."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}?deserialize=true"
        return self.call("GET", path)["value"]

    def behind(self, dag_id: str, run_id: str, task_id: str, button: str) -> httpx.Response:
        """Fetch the page behind a button of a task."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/links"
        return self.fetch(self.call("GET", path)["extra_links"][button])

    def fetch(self, url: str) -> httpx.Response:
        """Fetch a page as the logged-in user."""
        answer = self.send("GET", url)
        assert answer.is_success, f"{url}: {answer.status_code}"
        return answer

    def await_run(self, dag_id: str, run_id: str, timeout_s: float = RUN_S) -> str:
        """Wait for the end of a run and return its state."""

        def ended() -> str | None:
            state: str = self.call("GET", f"dags/{dag_id}/dagRuns/{run_id}")["state"]
            return state if state in ("success", "failed") else None

        return until(ended, f"{dag_id} {run_id} ends", timeout_s, _LOOK_S)


def project_at(home: Path, root: Path, folders: Iterable[str] = FOLDERS) -> None:
    """Copy the project at `root` to `home`, with a configuration that the test may change."""
    for folder in folders:
        (home / folder).symlink_to(root / folder)
    shutil.copytree(root / "config", home / "config")


@contextmanager
def supervised(project: Project, home: Path) -> Iterator[Supervised]:
    """Start all components and unpause the DAGs. The agent gets its own PID namespace if the system allows one."""
    project_at(home, project.root)
    port, controller_port, airflow_port = demo_ports()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("FRAUD_HOME", str(home))
        patch.setenv("FRAUD_BROKER_PORT", str(port))
        patch.setenv("FRAUD_BROKER_CONTROLLER_PORT", str(controller_port))
        patch.setenv("FRAUD_AIRFLOW_PORT", str(airflow_port))
        context = load_context()
        site = DemoSite(context, own_pid_namespace())
        stack.callback(site.stop_left_over)
        began_s = time.monotonic()
        site.start(stack, print)
        world = Supervised(site, context)
        await_healthy(site.airflow)
        stack.callback(end_at_once, site)
        stack.callback(world.sender.stop)  # it would wait for the answers of a dead broker
        world.await_health(Health.HEALTHY)
        world.healthy_s = time.monotonic() - began_s
        world.await_rules()
        world.sender.start()  # the rules ignore frauds that were planted before they are live
        yield world


def end_at_once(site: DemoSite) -> None:
    """Kill all processes of a test's installation, without an orderly shutdown."""
    processes = [*site.airflow.processes()]
    for marker in (_agent_home(site), f"--settings={site.places.home}/"):
        for process in psutil.process_iter():
            if _has(process, marker):
                processes += [process, *process.children(recursive=True)]
    send_signal(processes, signal.SIGKILL)
    await_ends(processes, 30)
    site.broker.kill()


def _agent_home(site: DemoSite) -> str:
    """The argument that identifies an agent of this installation."""
    return f"--home={site.places.home / 'agent'}"


def own_pid_namespace() -> tuple[str, ...]:
    """The prefix that runs a command in its own PID namespace; empty if the system does not allow one."""
    prefix = ("unshare", "--pid", "--fork", "--kill-child=SIGTERM", "--mount-proc")
    if shutil.which(prefix[0]) is None:
        return ()
    return prefix if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0 else ()


def restart(site: DemoSite, component: Component) -> None:
    """Kill a component of Airflow, and restart it as its supervisor would."""
    site.airflow.kill(component)
    site.airflow.start(component)


def demo_ports() -> tuple[int, int, int]:
    """Find two ports for the broker, and the first of four consecutive ports for Airflow and the control plane."""
    port, controller_port = free_ports(2)
    while True:
        (first,) = free_ports(1)
        taken = {conn.laddr.port for conn in psutil.net_connections("tcp") if conn.laddr}
        if not taken.intersection(range(first, first + 4)) and first + 3 < 65_536:
            return port, controller_port, first


def _batch(seen: DetectorObservation) -> int:
    return -1 if seen.progress is None else seen.progress.progress.batch_id


def _supervised_ms(seen: DetectorObservation) -> int:
    return 0 if seen.deployment.supervision is None else seen.deployment.supervision[0]


def _has(process: psutil.Process | None, marker: str) -> bool:
    """Whether an argument of the process begins with this text."""
    try:
        return process is not None and any(each.startswith(marker) for each in process.cmdline())
    except psutil.Error:
        return False
