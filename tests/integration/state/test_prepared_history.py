"""The prepared history of a warm-up: its chunks are in the real topic before the batch that adds them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.prepared import PreparedHistory, prepare_history, warm_state_id
from fraud_rules.engine.state.head import Head, decode_head
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog, is_prepared
from fraud_rules.engine.warm_up import WarmHistory
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.logs.state_topic import HEAD
from fraud_rules.model.output import ViewRefresh
from fraud_rules.stream.worker import host_files
from fraud_rules.stream.worker.prepare_stage import StateChunks
from tests.support.kafka.own_topics import OwnTopics, delete_topics
from tests.support.kafka.state_topics import state_topics
from tests.support.records.decoded import decoded
from tests.support.records.payments import payment_record
from tests.support.rules import SCHEMA
from tests.support.streams.packed import SETTINGS, START_MS, blobs, comparable, timeline
from tests.support.streams.state_driver import Answer, Host, StateDriver

VERSION, GROUPING = 1, ("payeeId",)
PAST = 3_000
PREPARES_AT, JOINS_AT, BATCHES = 3, 6, 20


@pytest.fixture(scope="module")
def topics(broker: Broker, project: Project) -> Iterator[OwnTopics]:
    made = state_topics(broker, project)
    yield made
    delete_topics(made.kafka, made.declared)


@pytest.fixture(params=[1, 10**9], ids=["own files", "frames"])
def own_file_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the host has the chunks as files of their own."""
    monkeypatch.setattr(host_files, "OWN_FILE_BYTES", request.param)


@pytest.fixture(scope="module")
def packed() -> list[bytes]:
    return blobs(batches=BATCHES, rows=40)


@pytest.fixture(scope="module")
def history() -> WarmHistory:
    """Payments of the last seconds before the stream."""
    times = START_MS - PAST + np.arange(PAST)
    payments = [
        payment_record(10**6 + number, int(time), payeeId=number % 9, paymentAmount="1")
        for number, time in enumerate(times)
    ]
    return WarmHistory.of(VERSION, GROUPING, decoded(payments, times), int(times[0]))


@pytest.fixture(scope="module")
def answers(packed: list[bytes], history: WarmHistory) -> list[Answer]:
    """The answers of an engine that adds the history from its rows, with its state in memory."""
    log, views, found = MemoryStateLog(), HeapViews(), list[Answer]()
    for batch, blob in enumerate(packed):
        engine = KeyGroupEngine(0, SCHEMA, SETTINGS, log, views)
        found.append(comparable(engine.process([blob], timeline(), batch, 0, [history] if batch == JOINS_AT else ())))
    return found


def detector(topics: OwnTopics, home: Path) -> StateDriver:
    return StateDriver(topics.kafka, topics.names, f"d{uuid.uuid4().hex[:8]}", home)


def prepared(driver: StateDriver, history: WarmHistory, folder: Path) -> WarmHistory:
    """The history, prepared as a task of the detector prepares it."""
    grouping = timeline().latest.groupings[history.fields]
    store = StateChunks(driver.topic, 0)
    prepare_history(history.version, grouping, history.rows, history.begins_ms, SCHEMA, folder, store)
    found = PreparedHistory.find(folder)
    assert found is not None
    return WarmHistory.of_prepared(found, lambda: history.rows)


def head(driver: StateDriver) -> Head:
    await_settled(driver.kafka, [driver.topic.topic])
    return decode_head(driver.topic.read(0)[HEAD])


def prepared_in_topic(driver: StateDriver) -> set[str]:
    await_settled(driver.kafka, [driver.topic.topic])
    return {name for name in driver.topic.read(0) if name != HEAD and is_prepared(name)}


def lost(driver: StateDriver) -> None:
    """Another start, on a host without files."""
    driver.writer()
    driver.host.lose()


@pytest.mark.usefixtures("own_file_bytes")
@pytest.mark.parametrize("harmed_at", [PREPARES_AT + 1, JOINS_AT + 1], ids=["before it joins", "after it has joined"])
def test_a_prepared_history_survives_a_restore_and_the_deletion_of_orphans(
    harmed_at: int,
    topics: OwnTopics,
    packed: list[bytes],
    history: WarmHistory,
    answers: list[Answer],
    tmp_path: Path,
) -> None:
    driver, found, ready = detector(topics, tmp_path), list[Answer](), history
    for batch, blob in enumerate(packed):
        if batch == PREPARES_AT:
            ready = prepared(driver, history, tmp_path / "prepared")
        if batch == harmed_at:
            lost(driver)
        found.append(driver.evaluate(blob, histories=[ready] if batch == JOINS_AT else ()))
        if batch == JOINS_AT:
            assert warm_state_id(VERSION) in [state.id for state in head(driver).states], "the history is adopted"
    assert found == answers
    assert prepared_in_topic(driver) == {each.name for each in head(driver).chunks if is_prepared(each.name)}


def test_a_host_that_is_behind_reads_a_joined_history_once(
    topics: OwnTopics, packed: list[bytes], history: WarmHistory, answers: list[Answer], tmp_path: Path
) -> None:
    driver, other, found = detector(topics, tmp_path), Host(tmp_path / "other"), list[Answer]()
    ready, refreshed = prepared(driver, history, tmp_path / "prepared"), {}
    behind = {0, 1, JOINS_AT + 2, JOINS_AT + 5}
    for batch, blob in enumerate(packed):
        host = other if batch in behind else None
        found.append(driver.evaluate(blob, host, [ready] if batch == JOINS_AT else ()))
        refreshed[batch] = driver.refreshed, driver.restored
    assert found == answers
    kind, restored = refreshed[JOINS_AT + 2]
    assert kind is ViewRefresh.CATCH_UP and restored > PAST, "it reads the rows of the history"
    kind, restored = refreshed[JOINS_AT + 5]
    assert kind is ViewRefresh.CATCH_UP and restored < PAST, "it has them"


def test_the_batch_deletes_the_chunks_of_a_history_that_it_does_not_use(
    topics: OwnTopics, packed: list[bytes], history: WarmHistory, tmp_path: Path
) -> None:
    driver = detector(topics, tmp_path)
    ready = prepared(driver, history, tmp_path / "prepared")
    void = WarmHistory(VERSION - 1, GROUPING, ready.begins_ms, ready.load, ready.prepared)
    assert prepared_in_topic(driver)
    driver.evaluate(packed[0], histories=[void])
    assert not prepared_in_topic(driver)
    assert warm_state_id(VERSION) not in [state.id for state in head(driver).states]
