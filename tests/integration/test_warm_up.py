"""Warm-ups through a real broker and real Spark: the job, the detector that adds its result, kills of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.recorder import record_run
from fraud_rules.logs.rule_status import RuleOperation, WarmUpState, read_operations
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.replay import alert_members, decode_exactly, replay_recording
from fraud_rules.runtime.clock import now_ms
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.nightly.jobs import run_job
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PAST = 40
RULE = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["payeeId"],
    "aggregatorFunctionType": "COUNT",
    "limitOperatorType": ">=",
    "limit": PAST // 4,
    "windowSeconds": 900,
    "warmUp": True,
}


class Site:
    """A detector, its input, and its reports."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.topics = installation.topics
        self.sent = 0

    def pay(self, at_ms: int, payee: int = 1) -> int:
        """Send a payment and return its id."""
        self.sent += 1
        payment = {
            "transactionId": self.sent,
            "eventTime": at_ms,
            "payeeId": payee,
            "beneficiaryId": 7,
            "paymentType": "CSH",
            "paymentAmount": "1.25",
        }
        produce(self.topics.bootstrap, self.topics.names.transactions, [json.dumps(payment).encode()], self.sent % 2)
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

        until(reached, f"the warm-up is {state}", 120)
        report = self.report(version)
        assert report is not None
        return report

    def alerts(self) -> list[dict[str, Any]]:
        return [decode_exactly(each.value()) for each in read_all(self.topics.bootstrap, self.topics.names.alerts)]

    def alert_of(self, transaction: int) -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            return [each for each in self.alerts() if each["triggeringEvent"]["transactionId"] == transaction]

        until(found, "the payment raises an alert", 120)
        return found()[0]

    def warm_up(self) -> list[dict[str, Any]]:
        """Run the job and return its outcomes."""
        code, out, err = run_job("warm_up.py", self.installation)
        assert code == 0, err[-3000:]
        outcomes: list[dict[str, Any]] = json.loads(out)["warmUps"]
        return outcomes

    def assert_replay_is_equal(self) -> None:
        """The recording of the run, replayed in memory, gives the same alerts."""
        settings = self.installation.settings
        recording = record_run(self.topics.kafka, settings)
        answer = replay_recording(recording, TransactionSchema.load(self.installation.schema), settings)
        assert answer["alerts"] == [alert_members(alert) for alert in self.alerts()]


@pytest.fixture
def site(topics: OwnTopics, project: Project, tmp_path: Path) -> Site:
    return Site(Installation.make(tmp_path, project, topics, tick_ms=500, key_groups=4))


@pytest.fixture
def detector(site: Site) -> Iterator[RunningDetector]:
    running = RunningDetector(site.installation)
    running.wait_ready()
    yield running
    running.kill()


def test_a_rule_counts_the_payments_before_it_once_it_is_warm(site: Site, detector: RunningDetector) -> None:
    site.pay_past()
    version = site.publish()
    live = site.await_state(version, WarmUpState.REQUESTED)
    cold = site.pay(now_ms())
    (outcome,) = site.warm_up()
    assert (outcome["version"], outcome["refused"]) == (version, "")
    assert PAST < outcome["rows"] < 2 * PAST, "the job drops transactions before the reach"
    warm = site.await_state(version, WarmUpState.WARM)
    assert warm.warm_up is not None
    assert (warm.batch_id, warm.time, warm.warm_up.rows) == (live.batch_id, live.time, outcome["rows"])
    first = site.alert_of(site.pay(now_ms()))
    assert first["windowCount"] > PAST // 4 and first["windowComplete"]
    assert cold not in [each["triggeringEvent"]["transactionId"] for each in site.alerts()]

    # A second run has no request left. A killed detector restores the history from its own state.
    assert site.warm_up() == []
    detector.kill()
    again = RunningDetector(site.installation)
    try:
        again.wait_ready()
        second = site.alert_of(site.pay(now_ms()))
        assert second["windowComplete"]
        assert again.stop() == 0
    finally:
        again.kill()
    site.assert_replay_is_equal()
