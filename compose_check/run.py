"""The steps of a check, in order."""

from __future__ import annotations

import base64
import datetime
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import machine as bench_machine

from compose_check.composefile import ComposeFile
from compose_check.control_plane import ANSWER_S, ControlPlaneUsers, activate_with_four_eyes, add_user, require_active
from compose_check.errors import CheckFailed
from compose_check.images import Images
from compose_check.machine import ContainerSite
from compose_check.operator import OPERATOR_PASSWORD, Operator
from compose_check.payments import PlantedFraud, await_alerts, plant, write_payment
from compose_check.podman import Compose, Podman
from compose_check.report import Results
from compose_check.scrape import scrape
from compose_check.stack import Stack
from compose_check.waiting import await_progress
from fraud_rules.configuration.project import Project
from fraud_rules.runtime.clock import now_ms

__all__ = ["PROJECT_NAME", "Ports", "check", "environment_file", "remove"]

PROJECT_NAME = "fraud-compose-check"
_ADMIN, _ANALYST, _APPROVER = "admin", "anna", "paul"
_SEED_RULE = 4
_ABOVE_THE_RULE = "31000.00"
"""An amount above the limit of the approved rule, and below that of the seed rule."""
_STOP_S = 600.0
_POLL_S = 3.0
_SUPERVISION = ("agent", "airflow-scheduler", "airflow-triggerer")
"""The services whose logs grow while they deploy a detector."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of this machine that the services publish."""

    broker: int
    airflow: int
    spark: int


def environment_file(file: ComposeFile, ports: Ports) -> dict[str, str]:
    """The variables of .env: base images, the first user's name and address, and a new secret for each other one."""
    values = {name: secrets.token_hex(32) for name in file.secrets} | file.base_images
    values["AIRFLOW_FERNET_KEY"] = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    values |= {"FRAUD_ADMIN_USER": _ADMIN, "FRAUD_ADMIN_EMAIL": f"{_ADMIN}@example.org"}
    places = {"BROKER": ports.broker, "AIRFLOW": ports.airflow, "SPARK": ports.spark}
    return values | {f"FRAUD_{name}_PORT": str(port) for name, port in places.items()}


def check(
    project: Project, site: ContainerSite, ports: Ports, say: Callable[[str], None], *, reuse_images: bool = False
) -> Results:
    """Run all steps and return the figures. Raises CheckFailed. The containers stay; `remove` removes them."""
    started = time.monotonic()
    file = ComposeFile.read(project.root / "docker-compose.yml")
    variables = environment_file(file, ports)
    compose = _compose(project, site)
    compose.env_file.write_text("".join(f"{name}={value}\n" for name, value in variables.items()), encoding="utf-8")
    compose.env_file.chmod(0o600)
    if not reuse_images:
        Images(compose.podman, project, site.home).build(compose, file)
    build_s = time.monotonic() - started
    say(f"the images are built after {build_s:.0f} s")

    stack = Stack(compose.podman, compose, file, say)
    running = time.monotonic()
    ready = stack.start()
    operator = Operator(ports.broker, variables[OPERATOR_PASSWORD], project)
    _await_detector(stack, operator)
    detector_s = time.monotonic() - running
    say(f"the DAGs have deployed the detector after {detector_s:.0f} s")
    first_alert_s = plant(operator.kafka, _fraud(_SEED_RULE, "60000.00"))
    say(f"a planted fraud has its alert after {first_alert_s:.1f} s")

    users = _users(stack, ports, variables["FRAUD_ADMIN_PASSWORD"])
    rule = activate_with_four_eyes(users, _ANALYST, _APPROVER)
    four_eyes_alert_s = plant(operator.kafka, _fraud(rule, _ABOVE_THE_RULE))
    say(f"a rule with a second person's approval reports a fraud after {four_eyes_alert_s:.1f} s")

    kills, planted = _kill_all(stack, operator, rule)
    _await_detector(stack, operator)
    last_alert_s = plant(operator.kafka, _fraud(_SEED_RULE, "60000.00"))
    say(f"after all kills a planted fraud has its alert after {last_alert_s:.1f} s")
    await_alerts(operator.kafka, planted)
    require_active(users, _ANALYST, rule)
    scrape(stack)
    say(f"each of {len(planted)} payments before a kill has one alert, and all metrics are served")
    return Results(
        at=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        facts=_facts(project, compose.podman),
        build_s=build_s,
        ready=ready,
        detector_s=detector_s,
        first_alert_s=first_alert_s,
        four_eyes_alert_s=four_eyes_alert_s,
        kills=kills,
        last_alert_s=last_alert_s,
        total_s=time.monotonic() - started,
    )


def _kill_all(stack: Stack, operator: Operator, rule_id: int) -> tuple[dict[str, float], list[PlantedFraud]]:
    """Kill a container of each service, right after a payment that the rule must report. Return the seconds until each
    is healthy again, and the payments."""
    kills: dict[str, float] = {}
    planted: list[PlantedFraud] = []
    for service in stack.file.long_running:
        planted.append(_fraud(rule_id, _ABOVE_THE_RULE))
        write_payment(operator.kafka, planted[-1])
        kills[service.name] = stack.kill(service)
    return kills, planted


def remove(project: Project, site: ContainerSite, images: bool) -> None:
    """Remove the containers, volumes and networks of the check, and with `images` its whole folder."""
    compose = _compose(project, site)
    if compose.env_file.exists():
        compose.run("down", "--volumes", what="removal of the services", timeout_s=_STOP_S)
        compose.env_file.unlink()
    if images:
        compose.podman.attempt("system", "reset", "--force", timeout_s=_STOP_S)
        site.remove()


def _compose(project: Project, site: ContainerSite) -> Compose:
    podman = Podman(site, site.log)
    return Compose(podman, project.root / "docker-compose.yml", PROJECT_NAME, site.home / "env")


def _users(stack: Stack, ports: Ports, admin_password: str) -> ControlPlaneUsers:
    """An analyst and an approver who can log in. Raises CheckFailed if FAB's login page does not accept one of them."""
    users = ControlPlaneUsers(f"http://127.0.0.1:{ports.airflow}", admin_password, ANSWER_S)
    for user, role in ((_ANALYST, "analyst"), (_APPROVER, "approver")):
        add_user(stack, user, admin_password)
        users.expect(_ADMIN, "PUT", f"/bindings/{user}", json={"role": role})
        if users.log_in_by_form(user) != user:
            raise CheckFailed(f"FAB logs {user} in as another user")
    return users


def _await_detector(stack: Stack, operator: Operator) -> None:
    """Wait until the detector evaluates payments and the seed rules are in force."""
    last: dict[str, Any] = {}

    def is_ready() -> bool:
        status, is_alive = operator.status()
        last.clear()
        last.update(status)
        detector = status.get("detector") or {}
        return is_alive and detector.get("rulesInForce", 0) > 0

    def late(reason: str) -> CheckFailed:
        logs = stack.last_lines(stack.compose.containers("agent")[0])
        return CheckFailed(f"no detector evaluates payments, {reason}: {last}\n{logs}")

    await_progress(is_ready, lambda: stack.progress(*_SUPERVISION), late, _POLL_S)


def _fraud(rule_id: int, amount: str) -> PlantedFraud:
    return PlantedFraud(rule_id, now_ms(), amount)


def _facts(project: Project, podman: Podman) -> dict[str, str]:
    known = bench_machine.describe(project)
    kept = {name: known[name] for name in ("processor", "memory", "revision")}
    return kept | {"engine": podman.ask("--version").strip().removeprefix("podman version ")}
