"""Warm-ups through a real broker and real Spark: the job, the detector that adds its result, kills of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.consume import topic_ends
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.recorder import record_run
from fraud_rules.logs.rule_status import RuleOperation, WarmUpState, decode_operation, read_operations
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.replay import alert_members, decode_exactly, replay_recording
from fraud_rules.runtime.clock import now_ms
from fraud_rules.stream.checkpoint.marker import read_marker
from fraud_rules.stream.checkpoint.progress_marker import marker_of_progress
from fraud_rules.stream.pins import Pin
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.kafka.state_damage import remove_records
from tests.support.nightly.jobs import JobsInTurn, start_job
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.running_detector import Installation, RunningDetector, kill_session
from tests.support.records.payments import payment_record
from tests.support.rules import count_rule
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PAST = 40
RULE = count_rule(limit=PAST // 4, windowSeconds=900, warmUp=True)


class Site:
    """A detector, its input, and its reports."""

    def __init__(self, installation: Installation, jobs: JobsInTurn) -> None:
        self.installation = installation
        self.jobs = jobs
        self.topics = installation.topics
        self.sent = 0

    def pay(self, at_ms: int, payee: int = 1) -> int:
        """Send a payment and return its id."""
        self.sent += 1
        payment = payment_record(self.sent, at_ms, payeeId=payee, beneficiaryId=7, paymentAmount="1.25")
        produce(self.topics.bootstrap, self.topics.names.transactions, [payment], self.sent % 2)
        return self.sent

    def pay_past(self) -> None:
        """Send payments of two payees, from half an hour ago to now."""
        end_ms = now_ms()
        for number in range(2 * PAST):
            self.pay(end_ms - 1_800_000 + number * 22_500, payee=1 + number % 2)

    def publish(self, **members: Any) -> int:
        """Write a rule and return its version."""
        record = json.dumps(RULE | members).encode()
        return append_records(self.topics.kafka, self.topics.names.rules, [(b"1", record)])[0]

    def report(self, version: int) -> RuleOperation | None:
        return read_operations(self.topics.kafka, self.topics.names.rule_operations).get(version)

    def await_state(self, version: int, state: WarmUpState) -> RuleOperation:
        def reached() -> RuleOperation | None:
            report = self.report(version)
            return report if report is not None and report.warm_up and report.warm_up.state is state else None

        return until(reached, f"the warm-up is {state}")

    def alerts(self) -> list[dict[str, Any]]:
        return [decode_exactly(each.value()) for each in read_all(self.topics.bootstrap, self.topics.names.alerts)]

    def alerts_of(self, transaction: int) -> list[dict[str, Any]]:
        """Wait for the alerts of a payment."""

        def found() -> list[dict[str, Any]]:
            return [each for each in self.alerts() if each["triggeringEvent"]["transactionId"] == transaction]

        return until(found, "the payment raises an alert")

    def alert_of(self, transaction: int) -> dict[str, Any]:
        return self.alerts_of(transaction)[0]

    def warm_up(self, *flags: str) -> list[dict[str, Any]]:
        """Run the job and return its outcomes."""
        code, out, err = self.jobs.run("warm_up", self.installation, *flags)
        assert code == 0, err[-3000:]
        outcomes: list[dict[str, Any]] = json.loads(out)["warmUps"]
        return outcomes

    def assert_replay_is_equal(self) -> None:
        """The recording of the run, replayed in memory, gives the same alerts."""
        settings = self.installation.settings
        recording = record_run(self.topics.kafka, settings, TransactionSchema.load(self.installation.schema))
        answer = replay_recording(recording, TransactionSchema.load(self.installation.schema), settings)
        assert answer["alerts"] == [alert_members(alert) for alert in self.alerts()]

    def assert_progress_gives_the_pin(self) -> None:
        """Without the marker, a rebuild finds the pin of the last batch."""
        settings, kafka = self.installation.settings, self.topics.kafka
        marker = read_marker(kafka, settings)
        found = marker_of_progress(kafka, settings, TransactionSchema.load(self.installation.schema))
        assert marker is not None and found is not None
        assert (found.place, found.end_offsets) == (marker.place, marker.end_offsets)
        assert comparable(found.pin, known=marker.pin) == comparable(marker.pin, known=marker.pin)

    def kill_job_at_its_first_chunk(self) -> None:
        """Start the job, and kill it with SIGKILL when it has written rows."""
        start = self.chunks_end()
        job = start_job("warm_up", self.installation)
        until(lambda: self.chunks_end() > start or job.poll() is not None, "the job writes rows", every_s=0.0)
        kill_session(job)

    def chunks_end(self) -> int:
        with TopicReader(self.topics.kafka, self.topics.names.warm_ups) as reader:
            return reader.ends(1)[1]

    def is_prepared(self) -> bool:
        """Whether the detector has begun to prepare the view of a result."""
        return any((self.installation.home / "tmp").glob("fraud-rules-views-*/*/warm-ups/*/*/key-group-*"))

    def is_pinned(self, version: int) -> bool:
        """Whether the newest pin names the result for this rule record."""
        marker = read_marker(self.topics.kafka, self.installation.settings)
        return marker is not None and str(version) in marker.pin.warm_ups

    def batches_with(self, version: int) -> list[int]:
        """The batches that have added the result for this rule record."""
        added = [(each.batch_id, each.warm_ups) for each in self.installation.progress()]
        return [batch_id for batch_id, warm_ups in added if version in [each.version for each in warm_ups]]

    def warm_reports(self, version: int) -> int:
        """The number of reports that the rule record is warm."""
        reports = read_all(self.topics.bootstrap, self.topics.names.rule_operations)
        found = [decode_operation(report.value()) for report in reports]
        return sum(
            each.rule_version == version and each.warm_up is not None and each.warm_up.state is WarmUpState.WARM
            for each in found
        )

    def remove_past(self) -> None:
        """Remove all transactions from the topic, as retention does."""
        topic = self.topics.names.transactions
        for partition in topic_ends(self.topics.kafka, topic):
            remove_records(self.topics, topic, -1, partition)


def comparable(pin: Pin, known: Pin) -> Pin:
    """A pin as the next batch reads it, with the warm-ups of `known`: the next pin drops the others."""
    kept = {version: ref.later(None) for version, ref in pin.warm_ups.items() if version in known.warm_ups}
    return msgspec.structs.replace(pin, rejected=pin.earlier_rejections(), warm_ups=kept)


@pytest.fixture
def site(topics: OwnTopics, project: Project, jobs: JobsInTurn, tmp_path: Path) -> Site:
    return Site(Installation.make(tmp_path, project, topics, tick_ms=500, key_groups=4), jobs)


@contextmanager
def detector(site: Site) -> Iterator[RunningDetector]:
    running = RunningDetector(site.installation)
    try:
        running.wait_ready()
        yield running
    finally:
        running.kill()


@pytest.mark.long
def test_a_rule_counts_the_payments_before_it_once_whatever_is_killed(site: Site) -> None:
    with detector(site) as first:
        site.pay_past()
        version = site.publish()
        live = site.await_state(version, WarmUpState.REQUESTED)
        cold = site.pay(now_ms())
        site.kill_job_at_its_first_chunk()
        outcomes = site.warm_up()
        until(
            lambda: site.is_prepared() or site.is_pinned(version), "the detector prepares the result", 60, every_s=0.0
        )
        first.kill()
    with detector(site) as second:
        until(lambda: site.is_pinned(version), "a pin names the result", every_s=0.0)
        second.kill()
    with detector(site) as third:
        warm = site.await_state(version, WarmUpState.WARM)
        assert warm.warm_up is not None
        assert PAST < warm.warm_up.rows < 2 * PAST, "the job drops transactions before the reach"
        assert [each["rows"] for each in outcomes] in ([], [warm.warm_up.rows]), "the killed job may have ended before"
        assert (warm.batch_id, warm.time) == (live.batch_id, live.time)
        counted = site.alert_of(site.pay(now_ms()))
        assert counted["windowCount"] > PAST // 4 and counted["windowComplete"]
        assert cold not in [each["triggeringEvent"]["transactionId"] for each in site.alerts()]
        assert site.warm_up() == [], "no request is left"
        edited = site.publish(limit=PAST // 5)
        site.await_state(edited, WarmUpState.WARM)  # its history is complete, so it requests no other warm-up
        assert third.stop() == 0
    assert len(site.batches_with(version)) == site.warm_reports(version) == 1
    site.assert_progress_gives_the_pin()
    site.assert_replay_is_equal()


@pytest.mark.long
def test_the_past_comes_from_the_archive_if_retention_has_removed_it(site: Site, detectors: DetectorsInTurn) -> None:
    detectors.begin(site.installation)
    detectors.wait_ready()
    site.pay_past()
    site.publish(warmUp=False)
    until(lambda: sum(each.rows for each in site.installation.progress()) == 2 * PAST, "all payments are read")
    site.jobs.archive(site.installation)
    site.remove_past()
    of_archive = site.publish(ruleId=2, groupingKeyNames=["beneficiaryId"])
    site.pay(now_ms())  # belongs to the past of the second request only
    edited = site.publish(ruleId=2, groupingKeyNames=["beneficiaryId"], limit=PAST // 4 - 1)
    site.await_state(edited, WarmUpState.REQUESTED)
    outcome, second = site.warm_up()  # the requests of one grouping read the past once
    assert outcome["refused"] == "" and outcome["rows"] > PAST
    assert (second["version"], second["refused"]) == (edited, "") and second["rows"] > PAST
    site.await_state(of_archive, WarmUpState.WARM)
    site.await_state(edited, WarmUpState.WARM)
    alert = next(each for each in site.alerts_of(site.pay(now_ms())) if each["ruleId"] == 2)
    assert alert["windowCount"] > PAST // 2 and alert["windowComplete"]

    site.remove_past()
    without = site.publish(ruleId=3, groupingKeyNames=["paymentType"])
    site.await_state(without, WarmUpState.REQUESTED)
    (outcome,) = site.warm_up("--archive", str(site.installation.home / "none"))
    assert "retention has removed" in outcome["refused"]
    refused = site.await_state(without, WarmUpState.REFUSED)
    assert refused.warm_up is not None and refused.warm_up.reason == outcome["refused"]
    assert detectors.stop() == 0
    site.assert_progress_gives_the_pin()
