"""Rules of the control plane in the running detector: the detector's rule versions are the offsets in the store.

The publisher writes in Kafka transactions. Their markers occupy offsets too, also the last offsets of the log.

The same two starts cover a producer that renames a field. The detector is MOSTLY_QUARANTINED, its next start has a
schema with the new name, and a quarantine replay leads to the alerts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleWithForms
from fraud_control.sync.background import Background
from fraud_ops.observer import DetectorObserver
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.verdict import Health
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.logs.rule_status import await_operations
from fraud_rules.runtime import clock
from tests.support.control_plane.scene import ADA, Scene, rule_input
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.fraud_command import fraud
from tests.support.processes.running_detector import Installation
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
def installation(project: Project, topics: OwnTopics, tmp_path: Path) -> Installation:
    return Installation.make(tmp_path / "detector", project, topics)


@pytest.fixture
def published(scene: Scene, topics: OwnTopics, installation: Installation) -> Iterator[Scene]:
    """A control plane whose changes are published at once."""
    background = Background(scene.store, topics.kafka, installation.settings, scene.notified.append)
    background.start()
    yield scene
    background.stop()


def version_of(scene: Scene, rule_id: int) -> int:
    row = until(lambda: (row := scene.service.rule(rule_id).row).published and row, "it is in the log")
    assert row.log_version is not None
    return row.log_version


def live(scene: Scene, topics: OwnTopics, rule_id: int) -> int:
    """The version of a rule, once the detector has reported it live."""
    version = version_of(scene, rule_id)
    operations = await_operations(topics.kafka, topics.names.rule_operations, {version}, 120)
    assert (operations[version].rule_id, operations[version].status) == (rule_id, "LIVE")
    return version


def abort_one(topics: OwnTopics) -> None:
    """Abort a Kafka transaction, which leaves a gap in the offsets."""
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": f"{topics.prefix}other"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topics.names.rules, b'{"ruleId": 99}')
    producer.flush()
    producer.abort_transaction()


def pay(topics: OwnTopics, *numbers: int, payee: str = "payeeId") -> None:
    now_ms = clock.now_ms()
    transaction = {
        "eventTime": now_ms, payee: 1, "beneficiaryId": 2, "paymentType": "CSH",
        "paymentAmount": 50, "ingestionTimestamp": now_ms,
    }  # fmt: skip
    records = [json.dumps({"transactionId": number, **transaction}).encode() for number in numbers]
    produce(topics.bootstrap, topics.names.transactions, records)


RENAMED = range(1_000, 1_030)
"""The payments of a producer that has renamed `payeeId`."""


def await_blind(installation: Installation) -> None:
    """Return when a supervisor reports the detector MOSTLY_QUARANTINED."""
    with DetectorObserver(installation.topics.kafka, installation.settings) as watch:

        def is_blind() -> bool:
            seen = watch.observe()
            verdict = assess_detector(seen, HealthSettings(), seen.at_ms)
            return verdict.health is Health.MOSTLY_QUARANTINED and "payeeId" in verdict.reasons[0]

        until(is_blind, "the detector is blind")


def with_alias(installation: Installation, home: Path) -> Installation:
    """The installation with a schema that has `payer_id` as an alias of `payeeId`."""
    config = installation.project.config
    (home / "config").mkdir(parents=True)
    for name in ("topics.yaml", "detector.yaml"):
        (home / "config" / name).write_text((config / name).read_text())
    schema = (config / "schema.yaml").read_text()
    renamed = schema.replace("aliases: [payerId]", "aliases: [payerId, payer_id]")
    assert renamed != schema
    (home / "config" / "schema.yaml").write_text(renamed)
    return replace(installation, schema=home / "config" / "schema.yaml")


def alerts(topics: OwnTopics) -> list[dict[str, Any]]:
    return [json.loads(message.value()) for message in read_all(topics.bootstrap, topics.names.alerts)]


def active(scene: Scene, rule_id: int) -> RuleWithForms:
    detail = scene.service.create(ADA, rule_input(ruleId=rule_id))
    return scene.service.change_state(ADA, rule_id, detail.row.revision, StateName.ACTIVE)


def test_versions_of_the_store_are_those_of_alerts(
    published: Scene, topics: OwnTopics, installation: Installation, detectors: DetectorsInTurn, tmp_path: Path
) -> None:
    detail = active(published, 1)
    abort_one(topics)
    detectors.begin(installation)
    detectors.wait_ready()
    first = live(published, topics, 1)
    pay(topics, 1)
    (alert,) = until(lambda: alerts(topics), "the first alert")
    assert (alert["ruleId"], alert["ruleVersion"]) == (1, first)
    detail = published.service.edit(ADA, 1, detail.row.revision, rule_input(ruleId=1, limit=60))
    abort_one(topics)
    second = live(published, topics, 1)
    pay(topics, 2)
    alert = until(lambda: alerts(topics)[1:], "the second alert")[0]
    assert (alert["ruleVersion"], alert["triggeringValue"]) == (second, "100")
    published.service.change_state(ADA, 1, detail.row.revision, StateName.PAUSE)
    live(published, topics, 1)
    pay(topics, *RENAMED, payee="payer_id")
    await_blind(installation)
    assert detectors.stop() == 0
    detectors.begin(with_alias(installation, tmp_path / "renamed"))
    detectors.wait_ready()
    active(published, 2)
    third = live(published, topics, 2)
    pay(topics, 3)
    alert = until(lambda: alerts(topics)[2:], "the third alert")[0]
    assert (alert["ruleId"], alert["ruleVersion"]) == (2, third)
    replayed = fraud("quarantine", "replay", env={**topics.environment, "FRAUD_HOME": str(tmp_path / "renamed")})
    assert (replayed.exit_code, replayed.out.startswith(f"{len(RENAMED)} records")) == (0, True), replayed
    found = until(lambda: alerts(topics)[3 + len(RENAMED) - 1 :] and alerts(topics), "the alerts of the replay")
    assert sorted(each["triggeringEvent"]["transactionId"] for each in found[3:]) == list(RENAMED)
    assert detectors.stop() == 0
