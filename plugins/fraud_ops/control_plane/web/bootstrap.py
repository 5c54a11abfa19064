"""Creates the control plane from Airflow's configuration: its broker connection and its variable for the archive."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from fraud_ops.airflow_ui.report_pages import archive_root
from fraud_ops.control_plane.composition import ControlPlane, Environment, compose
from fraud_ops.control_plane.domain.snoozing import KnownSnoozing
from fraud_ops.control_plane.feed.hub import Hub
from fraud_ops.control_plane.feed.memory import FeedMemory
from fraud_ops.control_plane.web.stream import AlertEncoder, ServerSentEvents
from fraud_rules.configuration.project import Project

__all__ = ["compose_here", "compose_in_loop"]

_ARCHIVE_DAG = "fraud_archive"


def compose_here(loop: asyncio.AbstractEventLoop, stack: ExitStack) -> ControlPlane:
    """Create the control plane in this API server. Raises ConfigError if a connection is missing, Unavailable."""
    from fraud_ops.hooks.alarms import AlarmHook
    from fraud_ops.hooks.connections import KAFKA, connection, kafka_of
    from fraud_ops.hooks.notifications import NotificationHook

    here = Environment(
        project=Project.find(),
        kafka=kafka_of(connection(KAFKA)),
        archive=archive_root(),
        alarm=lambda alarm: AlarmHook().send(alarm),
        archive_due_ms=_archive_due_ms,
        send_alarm=lambda name, alarm: AlarmHook().deliver(name, alarm),
        alarm_receivers=lambda: AlarmHook().receivers(),
        notify=lambda receiver, message: NotificationHook().send(receiver, message),
        receiver_exists=lambda receiver: NotificationHook().exists(receiver),
    )
    return compose_in_loop(here, loop, stack)


def _archive_due_ms() -> int | None:
    """The time of the next run of the DAG that archives, as the scheduler has planned it."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.get(DagModel, _ARCHIVE_DAG)
        due = None if found is None or found.is_paused else found.next_dagrun_create_after
    return None if due is None else int(due.timestamp() * 1_000)


def compose_in_loop(here: Environment, loop: asyncio.AbstractEventLoop, stack: ExitStack) -> ControlPlane:
    """Create the control plane, with a hub that serves readers in this event loop."""

    def hub_of(memory: FeedMemory, snoozing: KnownSnoozing) -> Hub:
        hub = Hub(loop, memory, ServerSentEvents(AlertEncoder(memory), snoozing))
        stack.callback(lambda: loop.call_soon_threadsafe(hub.close))
        return hub

    return compose(here, hub_of, stack)
