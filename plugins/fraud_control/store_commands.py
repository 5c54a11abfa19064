"""The operators' commands for the store: audit chain, outbox, drift, publishing without a server, and reading again.

`command` imports this module only for these commands: the database's libraries take seconds to load.
"""

from __future__ import annotations

import getpass
import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass

import typer

from fraud_control.domain.errors import AuditBroken, Drifted
from fraud_control.domain.read_models import AuditVerdict, DriftedList, DriftSide
from fraud_control.domain.rule_input import RuleReader
from fraud_control.service import audit
from fraud_control.service.store_access import StoreAccess
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.database import Database
from fraud_control.sync.audit_check import check_audit
from fraud_control.sync.background import Background
from fraud_control.sync.cdc import cdc_intake
from fraud_control.sync.drift import DriftCheck, DriftReport
from fraud_control.sync.outbox import outbox_state
from fraud_rules.cli.options import default_bootstrap
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reachable import require_broker
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms, utc

__all__ = ["drift", "outbox", "publish", "reread_cdc", "verify"]


@dataclass(frozen=True, slots=True)
class _Opened:
    """The opened control plane of a project."""

    database: Database
    settings: ControlPlaneSettings
    detector: DetectorSettings
    schema: TransactionSchema

    @property
    def store(self) -> StoreAccess:
        return StoreAccess(self.database, self.settings, RuleReader(self.schema, self.detector.limits), now_ms)


def verify(*, log: bool) -> None:
    """Check the hash of every row of the audit log, and compare with the rule log if `log`. Raises AuditBroken."""
    opened = _open()
    with opened.database.reading() as session:
        verdict = audit.verify(session)
    if not verdict.whole:
        raise AuditBroken(f"the audit log is broken at row {verdict.broken_at} of {verdict.rows}")
    confirmed = f", {_confirmed(opened, verdict)} confirmed by the rule log" if log else ""
    typer.echo(f"intact: {verdict.rows} rows{confirmed}, head {verdict.head}")


def outbox() -> None:
    """Show how many changes wait for the rule log."""
    state = outbox_state(_open().database)
    since = "" if state.oldest_ms is None else f", the oldest for {(now_ms() - state.oldest_ms) / 1_000:.1f} s"
    typer.echo(f"{state.pending} waiting{since}")


def drift(kafka: KafkaConnection) -> None:
    """Compare the store with the rule log. Raises Drifted, BrokerUnavailable."""
    require_broker(kafka)
    opened = _open()
    topic = opened.detector.topics.rules
    found = DriftCheck(opened.database, kafka, topic, opened.schema, opened.detector.limits).read()
    typer.echo(_sentence(found))
    for each in found.differences:
        typer.echo(f"rule {each.rule_id}: store has {_side_text(each.store)}, log has {_side_text(each.log)}")
    for drifted in found.list_differences:
        typer.echo(
            f"list {drifted.list_name}: store has {_list_text(drifted.store)}, log has {_list_text(drifted.log)}"
        )
    if found.differences or found.list_differences:
        count = f"{len(found.differences)} rules and {len(found.list_differences)} lists"
        raise Drifted(f"store and rule log differ in {count}: see the runbook drift")
    if not found.in_sync:
        raise Drifted(f"the store is {_behind(found)}: see the runbook reader-stuck if that lasts")


def publish(kafka: KafkaConnection) -> None:
    """Publish changes and mirror the rule log until interrupted."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    opened = _open()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    background = Background(opened.store, kafka, opened.detector)
    background.start()
    typer.echo("publishing")
    stop.wait()
    background.stop()


def reread_cdc(kafka: KafkaConnection) -> None:
    """Continue with the recreated topic of the rule table. Raises RequestRefused, BrokerUnavailable."""
    require_broker(kafka)
    opened = _open()
    topic = opened.detector.topics.rules_cdc
    offset = cdc_intake(opened.store, kafka, topic).reread(_os_user())
    typer.echo(f"{topic} is read from offset {offset} on, by the running server or `fraud control publish`")


def _os_user() -> str:
    """The user of this process; its number if the host has no name for it, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _open() -> _Opened:
    project = Project.find()
    settings = ControlPlaneSettings.load(project)
    detector = DetectorSettings.load(project.config / "detector.yaml")
    schema = TransactionSchema.load(project.config / "schema.yaml")
    return _Opened(Database.open(settings.database), settings, detector, schema)


def _confirmed(opened: _Opened, verdict: AuditVerdict) -> int:
    kafka = KafkaConnection.load(default_bootstrap(os.environ))
    return check_audit(opened.database, kafka, opened.detector.topics.rules, verdict)


def _sentence(found: DriftReport) -> str:
    word = "in sync" if found.in_sync else f"out of sync, {_behind(found)}" if found.behind else "out of sync"
    if not found.settled:
        word = "not settled: a change of all rules is pending"
    places = f"log ends at {found.log_end}, store has read up to {found.store_position}"
    return f"{word} ({places}, {found.pending} waiting)"


def _behind(found: DriftReport) -> str:
    since = utc(found.behind_since_ms or 0)
    return f"{found.behind} records behind the rule log since {since:%Y-%m-%d %H:%M:%S} UTC"


def _list_text(side: DriftedList | None) -> str:
    if side is None:
        return "no list"
    return f"{side.size} {side.type} values of version {side.version} (SHA-256 {side.values_sha256[:12]})"


def _side_text(side: DriftSide | None) -> str:
    return "no rule in force" if side is None else f"{side.document.get('ruleState')} of version {side.version}"
