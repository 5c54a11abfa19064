"""The control plane inside Airflow's login and lifespan, without the rest of Airflow."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from airflow import settings as airflow_settings
from airflow.api_fastapi import app as airflow_app
from airflow.models.revoked_token import RevokedToken
from fastapi import FastAPI
from fastapi.testclient import TestClient

from fraud_ops.alarms import Alarm
from fraud_ops.control_plane.composition import ControlPlane, Environment
from fraud_ops.control_plane.paths import API, PAGES
from fraud_ops.control_plane.settings import ControlPlaneSettings
from fraud_ops.control_plane.web.app import create_app
from fraud_ops.control_plane.web.bootstrap import compose_in_loop
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from tests.support.control_plane.scene import REASON
from tests.support.kafka.own_topics import OwnTopics
from tests.support.waiting import until

RULE: dict[str, Any] = {
    "groupingKeyNames": ["payeeId"],
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": ">",
    "limit": 20,
    "windowMinutes": 20,
}


@dataclass(frozen=True, slots=True)
class Login:
    """An initialized auth manager of Airflow, and a token for each user."""

    application: FastAPI
    tokens: dict[str, str]

    def headers(self, user: str) -> dict[str, str]:
        """The headers that authenticate a user."""
        return {"Authorization": f"Bearer {self.tokens[user]}"}


@contextmanager
def airflow_login(home: Path, users: Iterable[str]) -> Iterator[Login]:
    """Airflow's simple auth manager with these users. It needs one table of Airflow's database."""
    users = list(users)
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({user: f"{user}'s secret" for user in users}))
    made = {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:viewer" for user in users),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of tests that is as long as it has to be, and then some more of it",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
    }
    before = {name: os.environ.get(name) for name in made}
    os.environ.update(made)
    try:
        _connect()
        RevokedToken.metadata.create_all(airflow_settings.engine, tables=[RevokedToken.__table__])
        airflow_app.purge_cached_app()
        manager = airflow_app.init_auth_manager()
        application = manager.get_fastapi_app()
        assert application is not None
        with TestClient(application) as client:
            yield Login(application, {user: _token(client, user) for user in users})
    finally:
        airflow_app.purge_cached_app()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        _connect()


def _connect() -> None:
    airflow_settings.dispose_orm(do_log=False)
    airflow_settings.configure_vars()
    airflow_settings.configure_orm()


def _token(client: TestClient, user: str) -> str:
    answer = client.post("/token", json={"username": user, "password": f"{user}'s secret"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["access_token"])


@dataclass
class Server:
    """A running control plane."""

    client: TestClient
    login: Login
    topics: OwnTopics
    plane: ControlPlane
    application: FastAPI
    alarms: list[Alarm] = field(default_factory=list)

    @classmethod
    @contextmanager
    def running(
        cls, login: Login, topics: OwnTopics, project: Project, settings: ControlPlaneSettings, folder: Path
    ) -> Iterator[Server]:
        """Run one."""
        alarms: list[Alarm] = []
        detector = DetectorSettings.load(project.config / "detector.yaml", {})

        def send(name: str, alarm: Alarm) -> None:
            alarms.append(alarm)

        here = Environment(
            project=project,
            kafka=topics.kafka,
            archive=folder / "archive",
            alarm=lambda alarm: [],
            alarm_receivers=lambda: ["fraud_webhook"],
            send_alarm=send,
            settings=settings,
            detector=replace(detector, topics=topics.names, detector=f"{topics.prefix}detector"),
        )

        def opener(loop: asyncio.AbstractEventLoop, stack: ExitStack) -> ControlPlane:
            return compose_in_loop(here, loop, stack)

        application = create_app(opener)
        with TestClient(mounted(application, login)) as client:
            plane = until(lambda: _plane(application), "the control plane has started", 60)
            assert plane.feed.await_caught_up(60)
            yield cls(client, login, topics, plane, application, alarms)

    def ask(self, method: str, path: str, user: str | None = "admin", **options: Any) -> httpx.Response:
        """Send a request to the API as a user; None sends it without a login."""
        headers = {**({} if user is None else self.login.headers(user)), **options.pop("headers", {})}
        return self.client.request(method, API + path, headers=headers, **options)

    def rule(self, user: str = "analyst", **members: Any) -> dict[str, Any]:
        """Create a draft rule."""
        answer = self.ask("POST", "/rules", user, json={"document": {**RULE, **members}})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def move(self, rule: dict[str, Any], state: str, user: str = "approver") -> httpx.Response:
        """Request a transition of a rule, based on the revision that was read."""
        match = {"If-Match": f'"{rule["revision"]}"'}
        transition = {"state": state, "comment": REASON}
        return self.ask("POST", f"/rules/{rule['ruleId']}/state", user, json=transition, headers=match)


def mounted(application: FastAPI, login: Login) -> FastAPI:
    """Mount the application as Airflow does: below the root, with the same lifespan, beside the login."""
    root = FastAPI(lifespan=airflow_app.lifespan)
    root.mount(PAGES, application)
    root.mount("/auth", login.application)
    return root


def _plane(application: FastAPI) -> ControlPlane | None:
    service: Callable[[], ControlPlane] = application.state.service
    try:
        return service()
    except Exception:  # noqa: BLE001 -- not yet
        return None
