"""Starts on a machine with far more work than cores, and with a state of a million events to restore."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from fraud_rules.configuration.project import Project
from fraud_rules.deploy.work import WORK_VARIABLE, Work, WorkPhase
from tests.support.kafka.own_topics import OwnTopics
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.rules import sum_rule
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(0)]

EVENTS = int(os.environ.get("FRAUD_EVENTS", "1_000_000"))
STARTS = int(os.environ.get("FRAUD_STARTS", "10"))
BUSY = 14
NEW = 1_000
START_MS = 1_700_000_000_000
BUSY_S = 3_600.0
RULE = sum_rule(limit=1_000_000_000, windowMinutes=10_000)


@pytest.fixture
def loaded(project: Project, topics: OwnTopics, tmp_path: Path) -> Installation:
    """A stopped detector that has evaluated a million transactions, all of them within the window of a rule."""
    installation = replace(
        Installation.make(tmp_path / "detector", project, topics), extra={WORK_VARIABLE: str(tmp_path / "work.json")}
    )
    producer = Producer({"bootstrap.servers": topics.bootstrap, "linger.ms": 50})
    producer.produce(topics.names.rules, json.dumps(RULE).encode(), partition=0)
    producer.flush()
    send(installation, range(EVENTS))
    detector = RunningDetector(installation)
    until(lambda: retained(installation) >= EVENTS, "a million events are in state", BUSY_S, every_s=2.0)
    assert detector.stop() == 0
    return installation


def send(installation: Installation, numbers: range) -> None:
    """Append the transactions with these numbers, of ten thousand payers in turn."""
    topics = installation.topics
    producer = Producer({"bootstrap.servers": topics.bootstrap, "linger.ms": 50})
    for number in numbers:
        record = (
            f'{{"transactionId":{number},"eventTime":{START_MS + number},"payeeId":{number % 10_000},'
            f'"beneficiaryId":1,"paymentAmount":1.00,"paymentType":"CSH","ingestionTimestamp":1}}'
        )
        producer.produce(topics.names.transactions, record.encode(), partition=number % 2)
        producer.poll(0)
        if number % 50_000 == 0:
            producer.flush()
    producer.flush()


def retained(installation: Installation) -> int:
    progress = installation.progress()
    return progress[-1].retained_events if progress else 0


@pytest.fixture
def busy() -> Iterator[None]:
    """Fourteen processes that only use the CPU."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def test_every_start_succeeds_and_reports_its_work(loaded: Installation, busy: None, tmp_path: Path) -> None:
    for start in range(STARTS):
        shutil.rmtree(loaded.home / "tmp", ignore_errors=True)  # without the views, the start must restore the state
        (loaded.home / "tmp").mkdir()
        before = len(loaded.progress())
        send(loaded, range(EVENTS + start * NEW, EVENTS + (start + 1) * NEW))  # a batch without rows needs no state
        seen: list[Work] = []
        detector = RunningDetector(loaded)

        def has_a_batch(before: int = before, seen: list[Work] = seen, detector: RunningDetector = detector) -> bool:
            assert detector.exit_code is None, detector.said()[-2_000:]
            work = read(tmp_path / "work.json")
            if work is not None and (not seen or seen[-1] != work):
                seen.append(work)
            return len(loaded.progress()) > before

        try:
            until(has_a_batch, "the first batch after a start", BUSY_S, every_s=0.25)
            phases = [work.phase for work in seen]
            assert WorkPhase.SESSION in phases
            assert WorkPhase.BATCH in phases
            restored = [work.done for work in seen if work.phase is WorkPhase.STATE]  # empty if the phase was short
            assert restored == sorted(restored)
            assert retained(loaded) >= EVENTS
            assert detector.stop() == 0
        finally:
            detector.kill()


def read(path: Path) -> Work | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Work)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
