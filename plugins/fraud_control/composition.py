"""The composition root: creates and connects the components of the control plane in a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy.orm import Session

from fraud_control.domain.label_models import LabelQuality
from fraud_control.domain.masking import Masking
from fraud_control.domain.notification_models import ReceiverShown
from fraud_control.domain.roles import Role
from fraud_control.domain.rule_input import RuleReader
from fraud_control.domain.snoozing import KnownSnoozing, Snoozing
from fraud_control.feed.fire_stats import RuleFireStats, fire_stats
from fraud_control.feed.follower import FeedReader
from fraud_control.feed.hub import Hub
from fraud_control.feed.memory import FeedMemory
from fraud_control.feed.past import PastAlerts
from fraud_control.service.alarm_log import AlarmDesk, recent_alarms
from fraud_control.service.alert_marks import snoozes
from fraud_control.service.alerts.listing import AlertList
from fraud_control.service.alerts.saved_searches import AlertSearches
from fraud_control.service.audit import AuditScan
from fraud_control.service.labels.service import LabelService
from fraud_control.service.labels.snapshot import LabelFile
from fraud_control.service.notifications.subscriptions import SubscriptionService
from fraud_control.service.panel import Panel
from fraud_control.service.program_tokens import ProgramLogins
from fraud_control.service.reading.entities import EntityReporter
from fraud_control.service.reading.evidence_search import EvidenceReader, EvidenceSource
from fraud_control.service.reading.pool import ReadingPool
from fraud_control.service.reading.proofs import MOST_RECORDS, ProofReader
from fraud_control.service.reading.quality import NoisyRule, label_quality, noisy_rules
from fraud_control.service.rules.approved_content import SeedContents, no_seeds
from fraud_control.service.rules.outcomes import PredictedRule, predicted_rules
from fraud_control.service.store_access import StoreAccess
from fraud_control.service.today import Today, today_of
from fraud_control.service.whatif import WhatIfs
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.accounts import user_of
from fraud_control.store.alarm_models import AlarmRow
from fraud_control.store.database import Database
from fraud_control.sync.background import Background
from fraud_control.sync.drift import DriftCheck
from fraud_control.sync.label_export import LabelExport
from fraud_control.sync.notifier import Notifier, Send, SendAlarm
from fraud_control.sync.outbox import outbox_state
from fraud_control.sync.reader_state import ReaderPosition
from fraud_control.sync.unapproved import (
    UnapprovedItem,
    seed_documents,
    unapproved_collections,
    unapproved_rules,
)
from fraud_control.ttl_cache import CachedByKey, CachedValue
from fraud_control.watch.data_watch import DataWatch
from fraud_control.watch.flood_guard import FloodGuard
from fraud_control.watch.prediction_watch import PredictionWatch
from fraud_control.watch.reader_watch import ReaderWatch
from fraud_control.watch.requested_what_ifs import RequestedWhatIfs
from fraud_control.watch.rule_changes import ChangesWatch
from fraud_control.watch.store_watch import Checks, StoreWatch
from fraud_control.watch.what_if_runner import WhatIfRunner
from fraud_ops.account import Account
from fraud_ops.alarms import Alarm
from fraud_ops.notifications import Receiver
from fraud_ops.observer import DetectorObserver
from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.entity.answer import EntitySource
from fraud_rules.batch.proof.written import ProofSource
from fraud_rules.codec.rules.collections.files import read_seed_folder
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.unread import read_unread
from fraud_rules.logs.data_health import HealthHour, read_hours
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.value_list import CollectionKind
from fraud_rules.monitoring.data_faults import data_faults
from fraud_rules.runtime.clock import now_ms, steady_ms

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_SNOOZES_TTL_S = 1.0
_NOISE_TTL_S = 60.0
_QUALITY_TTL_S = 60.0
_FIRE_STATS_TTL_S = 5.0
_TODAY_TTL_S = 2.0
_PREDICTED_TTL_S = 60.0
_HEALTH_TTL_S = 5.0
_ALARMS_TTL_S = 2.0
_RECEIVERS_TTL_S = 60.0
_SEEDS_TTL_S = 10.0
_USERS_TTL_S = 60.0
_ROLES_TTL_S = 1.0  # another process may change a role
_USERS_KEPT = 10_000
_NOTIFICATION_RECEIVERS_TTL_S = 2.0


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a process: the project, the broker, the archive and the alarm channel."""

    project: Project
    kafka: KafkaConnection
    archive: ArchivePath
    alarm: Callable[[Alarm], Sequence[str]]
    """Sends an alarm and returns the names of the connections that accepted it. Raises nothing."""
    settings: ControlPlaneSettings | None = None
    detector: DetectorSettings | None = None
    alarm_receivers: Callable[[], Sequence[str]] = tuple
    """The names of the connections that receive alarms."""
    send_alarm: SendAlarm = lambda name, alarm: "this process cannot send alarms"
    notify: Send = lambda receiver, message: "this process cannot send notifications"
    receiver_exists: Callable[[Receiver], bool] = lambda receiver: False
    """Whether the connection of a receiver of notifications exists."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The components of the control plane that the routes and the pages' stream use."""

    settings: ControlPlaneSettings
    detector: DetectorSettings
    schema: TransactionSchema
    masking: Masking
    store: StoreAccess
    searches: AlertSearches
    subscriptions: SubscriptionService
    labels: LabelService
    roles: CachedByKey[str, Role | None]
    programs: ProgramLogins
    users: CachedByKey[Account, str]
    memory: FeedMemory
    alerts: AlertList
    feed: FeedReader
    hub: Hub
    snoozing: CachedValue[Snoozing]
    noise: CachedValue[Mapping[int, NoisyRule]]
    quality: CachedValue[LabelQuality]
    fire_stats: CachedValue[list[RuleFireStats]]
    guard: FloodGuard
    evidence: EvidenceReader
    proofs: ProofReader
    entities: EntityReporter
    what_ifs: WhatIfs
    requested_what_ifs: RequestedWhatIfs
    alarms: CachedValue[Sequence[AlarmRow]]
    alarm_receivers: CachedValue[Sequence[str]]
    receivers: CachedValue[list[ReceiverShown]]
    today: CachedValue[Today]
    predicted: CachedValue[list[PredictedRule]]
    health_hours: CachedValue[list[HealthHour] | None]
    drift: DriftCheck
    readers: ReaderWatch
    faults: Callable[[], Mapping[str, str]]
    panel: Panel

    def forget_quality(self) -> None:
        """Read the quality of rules again, because this process has changed marks or labels."""
        self.noise.forget()
        self.quality.forget()


def compose(
    environment: Environment, hub_of: Callable[[FeedMemory, KnownSnoozing], Hub], stack: ExitStack
) -> ControlPlane:
    """Create and start all components; register their clean-up in `stack`. Raises ConfigError, Unavailable."""
    config = environment.project.config
    settings = environment.settings or ControlPlaneSettings.load(environment.project)
    detector = environment.detector or DetectorSettings.load(config / "detector.yaml")
    schema = TransactionSchema.load(config / "schema.yaml")
    database = Database.open(settings.database)
    stack.callback(database.close)
    seeds = partial(seed_documents, config / "rules", schema, detector.limits)
    known_seeds = CachedValue(partial(_readable_seeds, seeds), _SEEDS_TTL_S)
    store = StoreAccess(database, settings, RuleReader(schema, detector.limits), now_ms, known_seeds)
    roles = CachedByKey(store.role_of, _ROLES_TTL_S, _USERS_KEPT)
    subscriptions = SubscriptionService(store)
    alarm_receivers = CachedValue(environment.alarm_receivers, _RECEIVERS_TTL_S)
    desk = AlarmDesk(database, alarm_receivers, environment.alarm, now_ms)
    memory = FeedMemory()
    snoozing = CachedValue(partial(_snoozing, store), _SNOOZES_TTL_S)
    known_snoozing = KnownSnoozing(snoozing)
    hub = hub_of(memory, known_snoozing)
    feed = FeedReader(environment.kafka, detector, memory, hub.publish, known_snoozing)
    changes = ChangesWatch(store, hub.publish)
    guard = FloodGuard(
        memory,
        store,
        settings.flood,
        detector.detector,
        desk,
        now_ms,
        lambda: database.leadership("flood"),
    )
    label_file = LabelFile(database, environment.archive)
    what_ifs = WhatIfs(database, environment.archive, now_ms)
    runner = WhatIfRunner(database, what_ifs, environment.project, environment.archive, labels=label_file.refresh)
    panel = Panel(
        environment.kafka,
        DetectorObserver(environment.kafka, detector),
        memory,
        detector,
        now_ms,
    )
    requested_what_ifs = RequestedWhatIfs(store, what_ifs)
    pool = stack.enter_context(ReadingPool())
    entities = EntityReporter(pool, EntitySource(environment.kafka, environment.archive, schema, detector), now_ms)
    evidence = EvidenceReader(pool, EvidenceSource(environment.kafka, schema, detector))
    key = Path(settings.proof_key) if settings.proof_key else None
    proof_source = ProofSource(environment.kafka, environment.archive, schema, detector, MOST_RECORDS)
    proofs = ProofReader(pool, proof_source, database, key)
    background = Background(store, environment.kafka, detector, changes.accept, alarm_receivers)
    background.start()
    stack.callback(background.stop)
    drift = DriftCheck(database, environment.kafka, detector.topics.rules, schema, detector.limits)

    def unapproved() -> Sequence[UnapprovedItem]:
        if not settings.four_eyes:
            return ()
        collections = (
            unapproved_collections(store, kind, partial(read_seed_folder, kind, config, detector.limits))
            for kind in CollectionKind
        )
        return [*unapproved_rules(database, seeds), *(each for found in collections for each in found)]

    scan = AuditScan()
    checks = Checks(
        partial(outbox_state, database),
        drift.read,
        lambda: scan.check(database, now_ms()),
        unapproved,
        subscriptions.failing,
    )
    watch = StoreWatch(checks, detector.detector, desk, now_ms, steady_ms, lambda: database.leadership("watch"))

    def reader_positions() -> list[ReaderPosition]:
        feed_positions = feed.positions().items()
        return [
            *background.readings(),
            *(ReaderPosition("feed", topic, at, feed.fault, shared=False) for topic, at in feed_positions),
        ]

    readers = ReaderWatch(
        reader_positions,
        partial(read_unread, environment.kafka),
        detector.detector,
        desk,
        steady_ms,
        lambda: watch.leads,
    )
    predictions = PredictionWatch(
        store, what_ifs.saved, detector.detector, desk, lambda: database.leadership("predictions")
    )
    health_hours = CachedValue(lambda: read_hours(environment.kafka, detector, now_ms()), _HEALTH_TTL_S)
    data = DataWatch(
        lambda: data_faults(health_hours() or (), schema.names, now_ms()),
        detector.detector,
        desk,
        lambda: watch.leads,
    )
    notifier = Notifier(database, settings.receivers, environment.notify, now_ms, environment.send_alarm)
    label_export = LabelExport(database, label_file)
    threads = (
        feed, changes, guard, watch, panel, readers, data, notifier, label_export, requested_what_ifs, runner,
        predictions,
    )  # fmt: skip
    for thread in threads:
        thread.start()
        stack.callback(thread.stop)
    return ControlPlane(
        settings=settings,
        detector=detector,
        schema=schema,
        masking=Masking(schema),
        store=store,
        searches=AlertSearches(store),
        subscriptions=subscriptions,
        labels=LabelService(store, schema),
        roles=roles,
        programs=ProgramLogins(store, roles),
        users=CachedByKey(partial(user_of, database, clock_ms=now_ms), _USERS_TTL_S, _USERS_KEPT),
        memory=memory,
        alerts=AlertList(memory, PastAlerts(environment.kafka, detector.topics), snoozing),
        feed=feed,
        hub=hub,
        snoozing=snoozing,
        noise=CachedValue(partial(_read, store, noisy_rules), _NOISE_TTL_S),
        quality=CachedValue(partial(_read, store, label_quality), _QUALITY_TTL_S),
        fire_stats=CachedValue(lambda: fire_stats(memory.alerts(), memory.retracted(), now_ms()), _FIRE_STATS_TTL_S),
        guard=guard,
        evidence=evidence,
        proofs=proofs,
        entities=entities,
        what_ifs=what_ifs,
        requested_what_ifs=requested_what_ifs,
        alarms=CachedValue(lambda: recent_alarms(database), _ALARMS_TTL_S),
        alarm_receivers=alarm_receivers,
        receivers=CachedValue(
            lambda: subscriptions.receivers(environment.receiver_exists), _NOTIFICATION_RECEIVERS_TTL_S
        ),
        today=CachedValue(
            lambda: today_of(memory.day, database, settings.resolve_hours, now_ms(), complete=feed.day_is_complete),
            _TODAY_TTL_S,
        ),
        predicted=CachedValue(partial(_read, store, predicted_rules), _PREDICTED_TTL_S),
        health_hours=health_hours,
        drift=drift,
        readers=readers,
        faults=lambda: background.failures() | {each.name: each.fault for each in threads if each.fault is not None},
        panel=panel,
    )


def _snoozing(store: StoreAccess) -> Snoozing:
    with store.reading() as work:
        return Snoozing(snoozes(work.session, work.now_ms), work.now_ms)


def _read(store: StoreAccess, read: Callable[[Session, int], _T]) -> _T:
    with store.reading() as work:
        return read(work.session, work.now_ms)


def _readable_seeds(seeds: SeedContents) -> Mapping[int, Collection[bytes]]:
    """The contents of the seed files. Unreadable ones approve nothing; the task that applies them fails."""
    try:
        return seeds()
    except FraudError as error:
        _log.warning("the seed files count as not approved: %s", error)
        return no_seeds()
