"""The archive in an object store: a real server process, with real Kafka and Spark where the test is about them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from s3fs import S3FileSystem

from fraud_rules.batch.archive.files import read_log, read_transactions
from fraud_rules.batch.archive.manifest import Manifest, Table
from fraud_rules.batch.archive.place import archive_path
from fraud_rules.batch.archive.restoring import archived_transactions
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.daystore import DayStore
from fraud_rules.batch.reevaluation.run import empty_result
from fraud_rules.batch.whatif.run import WhatIfQuery, save_result, what_if
from fraud_rules.configuration.project import Project
from fraud_rules.errors import ArchiveBusy, ArchiveDamaged, ArchiveUnreachable, ConfigError
from fraud_rules.kafka.consume import await_settled
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.runtime.process import kill_session
from tests.support.conformance import load_schema
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import read_all
from tests.support.kafka.timed_topics import Logs
from tests.support.nightly.archived import Site
from tests.support.nightly.evaluated_days import FAR_MS, evaluated, options
from tests.support.nightly.jobs import JobsInTurn, archive_of, run_job, start_job
from tests.support.nightly.run_once import job_of, run_once
from tests.support.object_store import ObjectStore, object_store
from tests.support.processes.running_detector import Installation
from tests.support.records.payments import sample_payment
from tests.support.rules import sum_rule
from tests.support.waiting import until

pytestmark = pytest.mark.integration

DAY = Day.parse("2026-11-18")
RULE: dict[str, Any] = sum_rule(7, limit=20, windowMinutes=10)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A store that this process and its children find by their environment."""
    with object_store(tmp_path_factory.mktemp("objects")) as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store
    S3FileSystem.clear_instance_cache()


def site(place: str) -> Site:
    """Payee 1 pays 10 each minute from 23:55 on, over midnight."""
    steps: list[dict[str, Any]] = [{"at": DAY.start_ms, "rule": RULE}]
    for number in range(10):
        at_ms = DAY.end_ms + (number - 5) * 60_000
        payment = {"transactionId": number, "eventTime": at_ms, "payeeId": 1, "paymentAmount": 10}
        steps.append({"at": at_ms, "tx": payment})
    document = {"steps": steps, "keyGroups": 3}
    made = Site(ArchiveStore.at(place), document, load_schema("nullable"))
    made.archive(until_ms=DAY.plus(3).start_ms)
    return made


@pytest.fixture
def sites(objects: ObjectStore, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Site, Site]:
    """The same archive in a folder and in the object store."""
    return site(str(tmp_path / "archive")), site(objects.place(f"{request.node.name}/archive"))


def rows(store: ArchiveStore, schema: TransactionSchema) -> list[dict[str, Any]]:
    """All archived transactions, by id."""
    files = store.latest().of(Table.TRANSACTIONS)
    batch = TransactionBatch.concat([read_transactions(store, file, schema) for file in files])
    return sorted((batch.row(i, schema) for i in range(len(batch))), key=lambda row: int(str(row["transactionId"])))


@pytest.mark.parametrize("place", ["s3:bucket/key", "s3://bucket", "s3a://bucket/", "s3:///key"])
def test_a_place_without_bucket_and_prefix_is_refused(place: str) -> None:
    with pytest.raises(ConfigError, match="s3://BUCKET/PREFIX"):
        archive_path(place)


def test_a_file_and_an_object_have_the_same_content(sites: tuple[Site, Site], tmp_path: Path) -> None:
    folder, objects = sites
    assert rows(objects.store, objects.schema) == rows(folder.store, folder.schema)
    rules = [read_log(each.store, each.store.latest().of(Table.RULES)) for each in sites]
    assert rules[0] == rules[1]
    copies = archived_transactions(objects.store, tmp_path)
    originals = archived_transactions(folder.store, tmp_path)
    assert [copy.read_bytes() for copy in copies] == [original.read_bytes() for original in originals]


def test_of_two_writers_one_commits(sites: tuple[Site, Site]) -> None:
    store = sites[1].store
    manifest = store.latest()
    following = msgspec.structs.replace(manifest, version=manifest.version + 1)
    store.commit(following)
    other = msgspec.structs.replace(following, rejected=manifest.rejected + 1)
    with pytest.raises(ArchiveBusy, match="another run archives"):
        ArchiveStore(store.root).commit(other)
    assert store.latest() == following


def test_old_manifests_and_abandoned_objects_are_deleted(
    objects: ObjectStore, sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sites[1].store
    manifest = store.latest()
    for _ in range(25):
        manifest = msgspec.structs.replace(manifest, version=manifest.version + 1)
        store.commit(manifest)
    prefix = store.root.as_posix().removeprefix("s3://fraud/")
    assert len(objects.keys(f"{prefix}/manifests/")) == 20
    abandoned = store.new_path("transactions", str(DAY))
    abandoned.write_bytes(b"from a killed run")
    assert store.sweep(manifest) == 0, "it may belong to a run that works"
    monkeypatch.setattr("fraud_rules.batch.archive.store._ABANDONED_S", -60)
    assert store.sweep(manifest) == 1
    assert not abandoned.exists() and rows(store, sites[1].schema)


def test_a_lost_object_is_named(sites: tuple[Site, Site]) -> None:
    store, schema = sites[1].store, sites[1].schema
    (first, *_) = store.latest().of(Table.TRANSACTIONS)
    (store.root / first.path).unlink()
    with pytest.raises(ArchiveDamaged, match="is missing"):
        read_transactions(store, first, schema)


def test_a_day_has_the_same_result_and_state(sites: tuple[Site, Site]) -> None:
    found = []
    for each in sites:
        days, found_alerts = DayStore(each.store), list[dict[str, Any]]()
        for day in (DAY, DAY.plus(1), DAY.plus(1)):  # the second day begins with the saved state of the first one
            with days.exclusive(day):
                _, alerts = evaluated(each, day)
            found_alerts.append(without_detection(alerts.live))
            result = empty_result(options(each, day), FAR_MS, publishes=False)
            days.save_result(result, b"a page")
            assert days.page(day).read_bytes() == b"a page" and days.result(day) == result
        state = days.state(DAY.plus(1))
        assert state is not None and days.evaluated_days() == [DAY, DAY.plus(1)]
        images = days.images(DAY.plus(1), state, range(3))
        days.prune()
        found.append((found_alerts, images))
    assert found[0] == found[1] and found[0][0][0] and found[0][0][1]


def without_detection(alerts: Mapping[str, bytes]) -> dict[str, Any]:
    """The alerts without the time of their evaluation."""
    return {alert_id: {**json.loads(alert), "detectionTime": None} for alert_id, alert in alerts.items()}


@pytest.mark.long
def test_a_what_if_has_the_same_figures(sites: tuple[Site, Site], tmp_path: Path) -> None:
    draft = tmp_path / "draft.json"
    draft.write_text(json.dumps({**RULE, "ruleId": 1}))
    found = []
    for each in sites:
        result = what_if(WhatIfQuery(str(draft), DAY, DAY.plus(1), processes=2), each.store, each.schema, each.settings)
        page = save_result(result, each.store)
        assert page.read_bytes().startswith(b"<!doctype html>")
        found.append(msgspec.structs.replace(result, evaluated_ms=0, seconds=0))
    assert found[0] == found[1] and found[0].fires > 0


@pytest.mark.long
def test_a_killed_job_commits_nothing_twice(
    objects: ObjectStore, topics: OwnTopics, project: Project, jobs: JobsInTurn, tmp_path: Path
) -> None:
    installation = Installation.make(tmp_path, project, topics)
    schema = TransactionSchema.load(installation.schema)
    logs = Logs(topics)
    for number in range(300):
        payment = sample_payment(number, DAY.start_ms + number * 600_000, payeeId=number % 3, paymentAmount=1.25)
        logs.append(json.dumps(payment).encode(), 0, number % 2)
    logs.flush()
    prefix = f"{topics.prefix}archive"
    flags = ["--archive", objects.place(prefix)]
    job = start_job("archive", installation, *flags)
    until(lambda: objects.keys(f"{prefix}/data/") or job.poll() is not None, "the job writes", 200, every_s=0.0)
    kill_session(job)
    for expected in (300, 0):
        code, out, err = run_job("archive", installation, *flags)
        assert code == 0, err[-3000:]
        assert json.loads(out)["transactions"] in (expected, 0)
    jobs.archive(installation)
    store = ArchiveStore.at(flags[1])
    assert rows(store, schema) == rows(archive_of(installation), schema)
    assert len(rows(store, schema)) == 300


@pytest.mark.long
@pytest.mark.parametrize("moment", ["state saved", "publishing"])
def test_a_killed_evaluation_publishes_all_or_nothing(moment: str, objects: ObjectStore, topics: OwnTopics) -> None:
    """All payments came late, so their alerts are corrections. The next run repeats the evaluation from the store."""
    prefix, corrections = f"{topics.prefix}nightly", topics.names.alert_corrections
    steps: list[dict[str, Any]] = [{"at": DAY.end_ms + 36_000_000, "rule": RULE}]
    for number in range(40):
        payment = sample_payment(number, DAY.start_ms + number * 60_000, paymentAmount=10)
        steps.append({"at": DAY.end_ms + 36_000_001, "tx": payment})
    made = Site(ArchiveStore.at(objects.place(prefix)), {"steps": steps, "keyGroups": 2}, load_schema("default"))
    made.archive()
    before = set(objects.keys(prefix))
    command = [sys.executable, "-m", "tests.support.nightly.run_once", objects.place(prefix)]
    run = subprocess.Popen([*command, topics.bootstrap, topics.prefix, str(DAY)], stdout=subprocess.DEVNULL)

    def reached() -> bool:
        if moment == "publishing":
            return bool(read_all(topics.bootstrap, corrections, committed=False))
        return set(objects.keys(prefix)) != before

    until(lambda: reached() or run.poll() is not None, f"the run is {moment}", 200, every_s=0.0)
    run.kill()
    run.wait()
    await_settled(topics.kafka, [corrections])
    published = len(read_all(topics.bootstrap, corrections))
    result = run_once(job_of(made.store, topics.bootstrap, topics.prefix, DAY))
    await_settled(topics.kafka, [corrections])
    ids = [json.loads(each.value() or b"")["alertId"] for each in read_all(topics.bootstrap, corrections)]
    assert len(ids) == len(set(ids)) == result.added > 5
    assert published in (0, len(ids))
    assert run_once(job_of(made.store, topics.bootstrap, topics.prefix, DAY)).new_corrections == 0


def test_a_store_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Project
) -> None:
    monkeypatch.setattr("fraud_rules.batch.archive.place._ATTEMPTS", 2)
    with object_store(tmp_path) as own:
        for name, value in own.environment.items():
            monkeypatch.setenv(name, value)
        S3FileSystem.clear_instance_cache()
        store = ArchiveStore.at(own.place("archive"))
        store.commit(Manifest(version=1))
        own.process.kill()
        own.process.wait()
        with pytest.raises(ArchiveUnreachable, match="s3://fraud/archive"):
            store.latest()
    S3FileSystem.clear_instance_cache()
    assert os.environ["AWS_ENDPOINT_URL"]
