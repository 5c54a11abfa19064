"""The server of the control plane in this process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.routing import Mount

from fraud_control.composition import ControlPlane, Environment
from fraud_control.domain.roles import Role
from fraud_control.settings import ControlPlaneSettings
from fraud_control.web.load.rates import Buckets, Throttle
from fraud_control.web.login.logins import Logins
from fraud_control.web.serve import compose_in_loop
from fraud_control.web.site import create_site
from fraud_ops.account import Account
from fraud_ops.alarms import Alarm
from fraud_ops.paths import API, PAGES
from fraud_ops.tickets import HEADER, Ticket, TicketKeys
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.scene import REASON, empty_store
from tests.support.control_plane.scene import RULE as SCENE_RULE
from tests.support.kafka.own_topics import OwnTopics
from tests.support.waiting import until

RULE: dict[str, Any] = {**SCENE_RULE, "groupingKeyNames": ["payeeId"]}


@dataclass(frozen=True, slots=True)
class Login:
    """The login of Airflow's plugin: it signs the tickets of all users."""

    keys: TicketKeys

    @classmethod
    def create(cls) -> Login:
        """A login with a new key."""
        return cls(TicketKeys(secrets.token_hex(32)))

    def headers(self, user: str, *, by_browser: bool = False, account: Account | None = None) -> dict[str, str]:
        """The headers that authenticate a user, or another account."""
        ticket = Ticket(account or Account("tests", user, user), by_browser)
        return {HEADER: self.keys.sign(ticket, now_ms() // 1_000)}


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

        site = create_site(opener, Logins(login.keys), here.archive)
        [application] = [each.app for each in site.routes if isinstance(each, Mount) and each.path == PAGES]
        assert isinstance(application, FastAPI)
        with TestClient(site) as client:
            plane = until(lambda: _plane(application), "the control plane has started")
            until(lambda: plane.feed.caught_up, "the feed has read its topics", 180)
            yield cls(client, login, topics, plane, application, alarms)

    def ask(self, method: str, path: str, user: str | None = "admin", **options: Any) -> httpx.Response:
        """Send a request to the API as a user; None sends it without a login."""
        headers = {**({} if user is None else self.login.headers(user)), **options.pop("headers", {})}
        return self.client.request(method, API + path, headers=headers, **options)

    def stop_clock_of_rates(self) -> None:
        """Fill no bucket of the rate limit again, so that a slow machine reaches the limit, too."""
        self.application.state.throttle = Throttle(Buckets(lambda: 0.0), delay_s=0.0)

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


def settings_of_every_role(topics: OwnTopics, folder: Path) -> ControlPlaneSettings:
    """An empty store in a folder, and a user for each role."""
    return ControlPlaneSettings(
        name=f"{topics.prefix}control",
        database=empty_store(folder),
        bindings={role.value: role for role in Role},
    )


def _plane(application: FastAPI) -> ControlPlane | None:
    service: Callable[[], ControlPlane] = application.state.service
    try:
        return service()
    except Exception:  # noqa: BLE001 -- not yet
        return None
