"""Runs the control plane as a server of its own."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import ExitStack
from functools import partial
from typing import Final

import uvicorn

from fraud_control.composition import ControlPlane, Environment, compose
from fraud_control.domain.snoozing import KnownSnoozing
from fraud_control.feed.hub import Hub
from fraud_control.feed.memory import FeedMemory
from fraud_control.settings import ControlPlaneSettings
from fraud_control.web.load.metrics import ControlPlaneMetrics, RequestTimer, server_figures
from fraud_control.web.login.logins import Logins
from fraud_control.web.login.signed_header import SignedHeader
from fraud_control.web.site import create_site
from fraud_control.web.stream import AlertEncoder, ServerSentEvents
from fraud_ops.delivery.alarms import AlarmSender
from fraud_ops.delivery.connections import connection_in_environment
from fraud_ops.delivery.notifications import NotificationSender
from fraud_ops.tickets import TicketKeys
from fraud_rules.batch.archive.place import archive_path
from fraud_rules.configuration.project import Project
from fraud_rules.errors import ConfigError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.metrics_server import serving

KEEP_ALIVE_S: Final = 75
"""How long an idle connection stays open: longer than proxies keep theirs (Airflow's plugin 5 s, nginx 60 s). A proxy
that kept one as long as the server would send requests at the moment at which the server closes it.
"""
_SHUTDOWN_S: Final = 5
"""The longest wait for open requests at the end. The event streams of pages are open until then."""


def serve(kafka: KafkaConnection, archive: str | None, host: str, port: int, metrics_at: str) -> None:
    """Serve until a signal ends the process, and metrics at the address `metrics_at`, if it is not empty.

    Raises ConfigError, PortInUse.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    project = Project.find()
    settings = ControlPlaneSettings.load(project)
    if not settings.ticket_key:
        raise ConfigError("there is no login: set ticket_key (FRAUD_CONTROL_TICKET_KEY) to the key of Airflow's plugin")
    place = archive_path(archive or str(project.var / "archive"))
    address = settings.url.rstrip("/")
    alarms = AlarmSender(connection_in_environment, address)
    notifications = NotificationSender(connection_in_environment, address)
    here = Environment(
        project=project,
        kafka=kafka,
        archive=place,
        settings=settings,
        alarm=alarms.send,
        alarm_receivers=alarms.receivers,
        send_alarm=alarms.deliver,
        notify=notifications.send,
        receiver_exists=notifications.exists,
    )

    def opener(loop: asyncio.AbstractEventLoop, stack: ExitStack) -> ControlPlane:
        plane = compose_in_loop(here, loop, stack)
        metrics.started(partial(server_figures, plane))
        return plane

    metrics = ControlPlaneMetrics()
    proxy = SignedHeader(settings.proxy_login) if settings.proxy_login.header else None
    logins = Logins(TicketKeys(settings.ticket_key), address, settings.airflow_url, proxy)
    site = create_site(opener, logins, place)
    site.add_middleware(RequestTimer, durations=metrics.durations)
    with serving(metrics_at, metrics.registry):
        uvicorn.run(
            site,
            host=host,
            port=port,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=_SHUTDOWN_S,
        )


def compose_in_loop(here: Environment, loop: asyncio.AbstractEventLoop, stack: ExitStack) -> ControlPlane:
    """Create the control plane, with a hub that serves readers in this event loop."""

    def hub_of(memory: FeedMemory, snoozing: KnownSnoozing) -> Hub:
        hub = Hub(loop, memory, ServerSentEvents(AlertEncoder(memory), snoozing))
        stack.callback(lambda: loop.call_soon_threadsafe(hub.close))
        return hub

    return compose(here, hub_of, stack)
