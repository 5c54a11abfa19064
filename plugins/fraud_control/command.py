"""`fraud store` and `fraud control-plane`: commands for the host of the control plane.

The commands import what they need, because the database's libraries take seconds to load.
"""

from __future__ import annotations

import getpass
import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fraud_control.domain.errors import AuditBroken, Drifted
from fraud_rules.cli.archive import Archive
from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.options import Kafka, Metrics, command_group, default_bootstrap
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.clock import now_ms, utc

if TYPE_CHECKING:
    from fraud_control.service.store_access import StoreAccess
    from fraud_control.settings import ControlPlaneSettings
    from fraud_control.store.database import Database
    from fraud_control.sync.drift import DriftReport

_CHECK_S: Final = 0.5

store = command_group("The control plane's store: audit chain, outbox, and differences from the rule log.")
control_plane = command_group("The server of the control plane.")


@dataclass(frozen=True, slots=True)
class _Opened:
    """The opened control plane of a project."""

    database: Database
    settings: ControlPlaneSettings
    context: CommandContext

    @property
    def store(self) -> StoreAccess:
        from fraud_control.domain.rule_input import RuleReader
        from fraud_control.service.store_access import StoreAccess

        reader = RuleReader(self.context.schema, self.context.settings.limits)
        return StoreAccess(self.database, self.settings, reader, now_ms)


@store.command()
def verify(
    log: Annotated[
        bool, typer.Option("--log", help="Also compare with the rule log, which names the row of every change.")
    ] = False,
) -> None:
    """Check the hash of every row of the audit log. Exit code 38 if a row was altered.

    \b
    Examples:
      fraud store verify
      fraud store verify --log
    """
    from fraud_control.service import audit
    from fraud_control.sync.audit_check import check_audit

    opened = _open()
    with opened.database.reading() as session:
        verdict = audit.verify(session)
    if not verdict.whole:
        raise AuditBroken(f"the audit log is broken at row {verdict.broken_at} of {verdict.rows}")
    confirmed = ""
    if log:
        kafka, topic = KafkaConnection.load(default_bootstrap()), opened.context.settings.topics.rules
        confirmed = f", {check_audit(opened.database, kafka, topic, verdict)} confirmed by the rule log"
    typer.echo(f"intact: {verdict.rows} rows{confirmed}, head {verdict.head}")


@store.command()
def outbox() -> None:
    """Show how many changes wait for the rule log.

    \b
    Examples:
      fraud store outbox
    """
    from fraud_control.sync.outbox import outbox_state

    state = outbox_state(_open().database)
    since = "" if state.oldest_ms is None else f", the oldest for {(now_ms() - state.oldest_ms) / 1_000:.1f} s"
    typer.echo(f"{state.pending} waiting{since}")


@store.command()
def drift(kafka: Kafka) -> None:
    """Compare the store with the rule log. Exit code 39 if they differ or the store is behind.

    \b
    Examples:
      fraud store drift
    """
    from fraud_control.sync.drift import DriftCheck
    from fraud_rules.kafka.reachable import require_broker

    require_broker(kafka)
    opened = _open()
    settings, schema = opened.context.settings, opened.context.schema
    found = DriftCheck(opened.database, kafka, settings.topics.rules, schema, settings.limits).read()
    typer.echo(_sentence(found))
    for each in found.differences:
        typer.echo(
            f"{each.item}: store has {each.store or 'nothing in force'}, log has {each.log or 'nothing in force'}"
        )
    if found.differences:
        raise Drifted(f"store and rule log differ in {len(found.differences)} items: see the runbook drift")
    if not found.in_sync:
        raise Drifted(f"the store is {_behind(found)}: see the runbook reader-stuck if that lasts")


@store.command()
def publish(kafka: Kafka) -> None:
    """Publish changes, mirror the rule log and apply change data without a server, until interrupted.

    \b
    Examples:
      fraud store publish
    """
    from fraud_control.sync.background import Background

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    opened = _open()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    background = Background(opened.store, kafka, opened.context.settings)
    background.start()
    typer.echo("publishing")
    while not stop.wait(_CHECK_S) and background.ended_by is None:
        pass
    background.stop()
    if background.ended_by is not None:
        raise background.ended_by


@store.command()
def reread(kafka: Kafka) -> None:
    """Read a recreated rule table from its beginning. Refused, with exit code 36, if the topic was not recreated.

    \b
    Examples:
      fraud store reread
    """
    from fraud_control.sync.cdc import cdc_intake
    from fraud_rules.kafka.reachable import require_broker

    require_broker(kafka)
    opened = _open()
    topic = opened.context.settings.topics.rules_cdc
    offset = cdc_intake(opened.store, kafka, topic).reread(_os_user())
    typer.echo(f"{topic} is read from offset {offset} on, by the running server or `fraud store publish`")


@control_plane.command()
def serve(
    kafka: Kafka,
    archive: Archive = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8090,
    metrics: Metrics = "",
) -> None:
    """Serve the pages, their API and the background work of the control plane, until interrupted.

    \b
    Examples:
      fraud control-plane serve
      fraud control-plane serve --host 0.0.0.0 --port 8090 --metrics 127.0.0.1:9110
    """
    from fraud_control.web.serve import serve

    serve(kafka, archive, host, port, metrics)


def _os_user() -> str:
    """The user of this process; its number if the host has no name for it, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _open() -> _Opened:
    from fraud_control.settings import ControlPlaneSettings
    from fraud_control.store.database import Database

    context = load_context()
    settings = ControlPlaneSettings.load(context.project)
    return _Opened(Database.open(settings.database), settings, context)


def _sentence(found: DriftReport) -> str:
    word = "in sync" if found.in_sync else f"out of sync, {_behind(found)}" if found.behind else "out of sync"
    if not found.settled:
        word = "not settled: a change of all rules is pending"
    places = f"log ends at {found.log_end}, store has read up to {found.store_position}"
    return f"{word} ({places}, {found.pending} waiting)"


def _behind(found: DriftReport) -> str:
    since = utc(found.behind_since_ms or 0)
    return f"{found.behind} records behind the rule log since {since:%Y-%m-%d %H:%M:%S} UTC"
