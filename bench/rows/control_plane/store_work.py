"""Measures the work behind the pages on a full store: label file, learning and forgetting of the index, audit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.figures import Figure, at_least, at_most
from bench.inputs.full_store import MONTH_MS, alert_id, document
from fraud_control.feed.events import read_alert
from fraud_control.feed.place import FeedSource
from fraud_control.service.alerts.index import AlertIndex
from fraud_control.service.audit import AuditScan
from fraud_control.service.labels.snapshot import LabelFile
from fraud_control.store.alert_models import MarkRow
from fraud_control.store.database import Database
from fraud_rules.configuration.project import Project
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime import clock

_TURNS: Final = 10
_LEARNED_AT_ONCE: Final = 200
_DAY_MS: Final = 86_400_000

FIGURES: Final = (
    Figure("label_file_s", "the label file, written after a mark", "s"),
    Figure("label_file_unchanged_ms", "the label file, without a new label", "ms"),
    Figure("learned_per_s", "alerts that the index learns", "/s"),
    Figure("forgotten_per_s", "alerts that the index forgets", "/s", at_least(1_000)),
    Figure("forgetting_ms", "the longest transaction of the forgetting", "ms", at_most(1_000)),
    Figure("audit_step_ms", "a step of the audit scan: 10,000 new rows and as many earlier ones", "ms"),
)


def store_work(database: Database, folder: Path, alerts: int) -> Mapping[str, float]:
    """Do each work as its thread does it, without a server."""
    return _label_file(database, folder) | _index(database, alerts) | _audit(database)


def _label_file(database: Database, folder: Path) -> Mapping[str, float]:
    file = LabelFile(database, folder)
    file.refresh()
    with database.writing() as session:
        mark = MarkRow(
            alert_id=alert_id(1), rule_id=1, rule_version=3, verdict="FRAUD", who="ann", at_ms=clock.now_ms()
        )
        session.merge(mark)
    return {"label_file_s": _seconds(file.refresh), "label_file_unchanged_ms": 1_000 * _seconds(file.refresh)}


def _index(database: Database, alerts: int) -> Mapping[str, float]:
    project = Project.find()
    index, now_ms = AlertIndex(TransactionSchema.load(project.config / "schema.yaml")), clock.now_ms()
    learned = [
        [
            read_alert(FeedSource.ALERTS, number, now_ms, document(number, now_ms))
            for number in range(alerts + turn * _LEARNED_AT_ONCE, alerts + (turn + 1) * _LEARNED_AT_ONCE)
        ]
        for turn in range(_TURNS)
    ]

    def learn(turn: int) -> int:
        with database.writing() as session:
            return len(index.add(session, learned[turn]))

    def forget(turn: int) -> int:
        with database.writing() as session:
            return index.prune(session, now_ms - MONTH_MS + 3 * _DAY_MS, now_ms)

    forgetting = [_timed(forget, turn) for turn in range(_TURNS)]
    learning = [_timed(learn, turn) for turn in range(_TURNS)]
    return {
        "learned_per_s": _rate(learning), "forgotten_per_s": _rate(forgetting),
        "forgetting_ms": 1_000 * max(took_s for _, took_s in forgetting),
    }  # fmt: skip


def _audit(database: Database) -> Mapping[str, float]:
    scan, took = AuditScan(), []
    for _ in range(_TURNS):
        with database.reading() as session:
            began = time.monotonic()
            state = scan.step(session, clock.now_ms())
            took.append(time.monotonic() - began)
        with database.writing() as session:
            state.save(session)
    return {"audit_step_ms": 1_000 * max(took)}


def _seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def _timed(call: Callable[[int], int], turn: int) -> tuple[int, float]:
    began = time.monotonic()
    return call(turn), time.monotonic() - began


def _rate(turns: list[tuple[int, float]]) -> float:
    return sum(count for count, _ in turns) / sum(took_s for _, took_s in turns)
