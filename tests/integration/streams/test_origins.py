"""Fields of keys, headers and the topic's name through every reader of a real topic: small and large batches, recording
and replay, archive and nightly job, warm-up, evidence, entity report and quarantine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from fraud_control.service.reading.evidence_search import EvidenceSearch, EvidenceSource
from fraud_rules.batch.entity.rows import EntityQuery, EntityReader
from fraud_rules.batch.reevaluation.report import decode_result
from fraud_rules.codec.transactions.quarantine import QuarantinedRecord
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.logs.data_health import read_hours
from fraud_rules.logs.quarantine import read_quarantine, replay
from fraud_rules.logs.recorder import record_run
from fraud_rules.logs.rule_status import WarmUpState, read_operations
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import alert_members, decode_exactly, replay_recording
from fraud_rules.runtime.clock import now_ms
from fraud_rules.stream.driver.batch_jobs import LARGE_BATCH_TRANSACTIONS
from tests.support.kafka.timed_topics import Logs, timed_topics
from tests.support.nightly.jobs import JobsInTurn, archive_of
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.fed_detector import FedDetector
from tests.support.processes.running_detector import Installation
from tests.support.rules import count_rule
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

DAY = Day.parse("2026-10-01")
NOON_MS = DAY.start_ms + 43_200_000
FIELDS = [
    {"name": "transactionId", "type": "long", "from": "key"},
    {"name": "eventTime", "type": "timestamp", "unit": "s", "from": "header.at"},
    {"name": "payer", "type": "string", "from": "header.payer.id"},
    {"name": "channel", "type": "string", "from": "topic"},
    {"name": "amount", "type": "decimal", "precision": 18, "scale": 2, "path": "payment.amount"},
]
RULE = count_rule(groupingKeyNames=["payer"], limitOperatorType="=", limit=3, windowSeconds=900)
WARM = RULE | {"ruleId": 2, "groupingKeyNames": ["payer", "channel"], "limit": 4, "warmUp": True}
PAYERS = LARGE_BATCH_TRANSACTIONS // 3 + 10
BAD = {
    "wrong_type:transactionId": (b"no number", b"p1"),
    "missing_field:transactionId": (None, b"p1"),
    "invalid_utf8:payer": (b"77", b"\xff\xfe"),
    "missing_field:payer": (b"78", None),
}
"""Keys and payers by the reason for which their records are rejected."""


def traceparent(number: int) -> bytes:
    return b"00-%032x-%016x-01" % (number, number)


@dataclass
class Site(FedDetector):
    """A detector that has evaluated a large and a small batch, with bad records in both."""

    schema: TransactionSchema
    sent: int = 0
    payments: int = 0

    def pay(self, payer: bytes | None, key: bytes | None = None, partition: int | None = None, **value: Any) -> None:
        """Send a payment, 10 ms after the previous one. Its number is its key by default."""
        self.sent += 1
        at_ms = NOON_MS + self.sent * 10
        at = at_ms // 1_000
        headers = [("payer.id", b"an earlier one"), ("at", str(at).encode()), ("payer.id", payer)]
        parent = traceparent(self.sent) if self.sent % 2 else b"invalid"
        headers += [("traceparent", b"earlier"), ("traceparent", parent), ("tracestate", b"a=1")]
        record = json.dumps({"payment": {"amount": 1.5}, **value}).encode()
        key = str(self.sent).encode() if key is None else key
        self.logs.append(record, at_ms, self.sent % 2 if partition is None else partition, headers, key)
        self.payments += 1

    def pay_badly(self) -> None:
        for key, payer in BAD.values():
            self.pay(payer, key or b"", partition=0)
        self.payments -= len(BAD)

    def rule(self, **members: Any) -> int:
        return self.logs.append_rule(json.dumps(members).encode(), NOON_MS + self.sent * 10)

    def alerts(self, rule_id: int = 1) -> list[dict[str, Any]]:
        return [each for each in self.documents("alerts") if each["ruleId"] == rule_id]

    def counted(self) -> tuple[int, int]:
        """The payments and the quarantined records in the figures of the hours."""
        hours = read_hours(self.installation.topics.kafka, self.installation.settings, now_ms()) or []
        return sum(each.rows for each in hours), sum(each.quarantined_records for each in hours)

    def quarantined(self) -> list[QuarantinedRecord]:
        topics = self.installation.topics
        return list(read_quarantine(topics.kafka, topics.names.quarantine))


@pytest.fixture(scope="module")
def site(
    broker: Broker, project: Project, detectors: DetectorsInTurn, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    topics, home = timed_topics(broker, project), tmp_path_factory.mktemp("origins")
    file = home / "schema.yaml"
    file.write_text(yaml.safe_dump({"fields": FIELDS}))
    installation = Installation.make(home, project, topics, file, key_groups=3, trace_headers=True)
    site = Site(installation, detectors, Logs(topics), TransactionSchema.load(file))
    site.rule(**RULE)
    site.pay_badly()
    for number in range(3 * PAYERS):
        site.pay(b"p%d" % (number % PAYERS))
    site.logs.flush()
    detectors.begin(installation)
    detectors.wait_ready()
    site.await_evaluated()
    site.pay_badly()
    for _ in range(3):
        site.pay(b"small", partition=0)  # a batch may begin between two partitions
    site.await_evaluated()
    yield site
    assert detectors.stop() == 0


def test_both_ways_of_a_batch_read_keys_headers_and_topic(site: Site) -> None:
    assert max(each.rows for each in site.installation.progress()) == 3 * PAYERS, "a batch was large"
    alerts = site.alerts()
    assert {each["key"]["payer"] for each in alerts} == {"small", *(f"p{n}" for n in range(PAYERS))}
    (event,) = (each["triggeringEvent"] for each in alerts if each["key"]["payer"] == "small")
    assert event["transactionId"] == site.sent
    assert (event["channel"], str(event["amount"])) == (site.installation.topics.names.transactions, "1.50")
    assert event["eventTime"] == (NOON_MS + site.sent * 10) // 1_000 * 1_000


def test_alerts_and_decisions_have_the_headers_of_valid_traces(site: Site) -> None:
    traced = set()
    for role in ("alerts", "decisions"):
        for message in site.messages(role):
            document = decode_exactly(message.value())
            payment = document["triggeringEvent"] if role == "alerts" else document
            number = payment["transactionId"]
            known = [("traceparent", traceparent(number)), ("tracestate", b"a=1")]
            assert message.headers() == (known if number % 2 else None)
            traced.add(number % 2)
    assert traced == {0, 1}


def test_a_quarantined_record_has_its_key_and_headers(site: Site) -> None:
    found = site.quarantined()
    assert [each.reason for each in found] == [*BAD, *BAD]
    for each in found:
        key, payer = BAD[each.reason]
        assert each.key == (key or b"")
        assert [header for header in each.headers if header[0] == "payer.id"] == [
            ("payer.id", b"an earlier one"),
            ("payer.id", payer),
        ]


def test_a_recording_replays_to_the_same_alerts(site: Site) -> None:
    settings = site.installation.settings
    written = b"".join(record_run(site.installation.topics.kafka, settings, site.schema).lines())
    answer = replay_recording(Recording.read(written), site.schema, settings)
    assert answer["alerts"] == [alert_members(each) for each in site.alerts()]
    assert len(answer["quarantine"]) == 2 * len(BAD)


def test_a_warm_up_evidence_and_entity_read_them_too(site: Site, jobs: JobsInTurn) -> None:
    installation, topics = site.installation, site.installation.topics
    version = site.rule(**WARM)
    site.await_evaluated()
    code, _, err = jobs.run("warm_up", installation)
    assert code == 0, err[-3000:]

    def is_warm() -> bool:
        report = read_operations(topics.kafka, topics.names.rule_operations)[version]
        return report.warm_up is not None and report.warm_up.state is WarmUpState.WARM

    until(is_warm, "the warm-up joins the state")
    site.pay(b"p7")
    site.await_evaluated()
    (alert,) = site.alerts(2)
    assert alert["key"] == {"payer": "p7", "channel": topics.names.transactions}
    (published,) = (each.value() for each in site.messages("alerts") if decode_exactly(each.value()) == alert)

    source = EvidenceSource(topics.kafka, site.schema, installation.settings)
    evidence = EvidenceSearch(source).find(published or b"")
    assert (evidence.count, evidence.missing) == (4, None)

    reader = EntityReader(topics.kafka, archive_of(installation), site.schema, installation.settings)
    for query, count in (
        (EntityQuery("payer", "p7", NOON_MS), 4),
        (EntityQuery("transactionId", site.sent, NOON_MS), 1),
    ):
        assert len(reader.read(query).batch) == count


def test_the_archive_has_the_fields_and_the_nightly_job_confirms_the_alerts(site: Site, jobs: JobsInTurn) -> None:
    report = jobs.archive(site.installation)
    assert (report["transactions"], report["refused"]) == (site.payments, 2 * len(BAD))
    code, out, err = jobs.run("reevaluate", site.installation, f"--day={DAY}")
    assert code == 0, err[-3000:]
    result = decode_result(out)
    # The payments have times of another day than the detector, so for this job the warm-up comes after them.
    assert (result.confirmed, result.added) == (len(site.alerts()), 0)
    counted = site.payments, 2 * len(BAD)
    until(lambda: site.counted() == counted, "the hours count the payments of small and large batches")


def test_a_record_that_is_sent_again_keeps_its_key_and_headers(site: Site) -> None:
    """A schema for which the payer may be absent reads one of the records."""
    fields = [{**each, "nullable": each["name"] == "payer"} for each in FIELDS]
    lenient = TransactionSchema.parse({"fields": fields})
    kafka, settings = site.installation.topics.kafka, site.installation.settings
    result = replay(kafka, settings, lenient, site.quarantined())
    assert (result.fed, len(result.unreadable)) == (2, 2 * len(BAD) - 2)
    again = [each for each in site.messages("transactions") if dict(each.headers() or ()).get("fraud-quarantine")]
    assert [each.key() for each in again] == [b"78", b"78"]
    headers = again[0].headers()
    assert headers is not None
    assert [name for name, _ in headers[:3]] == ["payer.id", "at", "payer.id"]
    assert [name for name, _ in headers[-2:]] == ["fraud-quarantine", "fraud-source"]
