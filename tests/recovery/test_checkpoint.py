"""A checkpoint whose state is damaged, or that does not fit, is refused by name. The start writes nothing."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.engine.state.head import decode_head
from fraud_rules.errors import CheckpointForeign, DetectorStopped, StateDamaged
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.logs.state_topic import HEAD
from tests.support.conformance import SCHEMAS
from tests.support.kafka.records import read_all
from tests.support.kafka.state_damage import Change, damaged_state
from tests.support.kafka.timed_topics import Logs, timed_topics
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.running_detector import Installation, covers
from tests.support.recovery.verdict import differences
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(900)]

START_MS = 1_700_000_000_000
ROUNDS = 6
RULE = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["payeeId"],
    "aggregatorFunctionType": "SUM",
    "aggregateFieldName": "paymentAmount",
    "limitOperatorType": ">",
    "limit": 5,
    "windowSeconds": 60,
}
OUTPUTS = (
    "alerts", "shadow_alerts", "decisions", "restrictions", "late_transactions", "quarantine", "rule_operations",
    "current_rules", "detector_progress",
)  # fmt: skip


@dataclass
class Site:
    """A detector that has worked and ended cleanly. `home` is the folder of its temporary files."""

    installation: Installation
    detectors: DetectorsInTurn
    logs: Logs
    home: Path
    documents: dict[bytes, dict[str, Any] | None]
    now_ms: int = START_MS

    def work(self, rounds: int = 1) -> None:
        """Let the running detector evaluate more transactions, one batch per round."""
        for _ in range(rounds):
            for number in range(8):
                self.now_ms += 500
                tx = {
                    "transactionId": len(self.documents) + 1,
                    "eventTime": self.now_ms - 100 * number,
                    "payeeId": number % 3,
                    "beneficiaryId": number,
                    "paymentType": "CSH",
                    "paymentAmount": "1.25",
                }
                record = json.dumps(tx).encode()
                self.documents[record] = tx
                self.logs.append(record, self.now_ms, number % 2)
            self.await_evaluated()

    def lose_views(self) -> None:
        """Remove the views of the host, and what else it keeps of the state."""
        for folder in (self.home / "tmp").glob("fraud-rules-views-*"):
            shutil.rmtree(folder)

    def await_evaluated(self) -> None:
        """Return once everything is evaluated."""
        self.logs.flush()
        until(self._has_evaluated, "everything is evaluated")

    def _has_evaluated(self) -> bool:
        progress = self.installation.progress()
        return bool(progress) and covers(
            progress[-1], self.logs.ends, self.installation.topics.names, self.logs.rules_end
        )

    def written(self) -> dict[str, list[Any]]:
        """The committed records of the output topics, by role."""
        bootstrap = self.installation.topics.bootstrap
        topics = {role: getattr(self.installation.topics.names, role) for role in OUTPUTS}
        await_settled(self.installation.topics.kafka, topics.values())
        return {
            role: [(message.offset(), message.value()) for message in read_all(bootstrap, topic)]
            for role, topic in topics.items()
        }


@pytest.fixture(scope="module")
def site(broker: Broker, project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("site")
    installation = Installation.make(home / "detector", project, timed_topics(broker, project), tick_ms=500)
    detectors = DetectorsInTurn(home / "turn", project)
    try:
        site = Site(installation, detectors, Logs(installation.topics), home / "turn", {})
        site.logs.append_rule(json.dumps(RULE).encode(), START_MS)
        site.logs.flush()  # before the broker sets the times, for the start
        detectors.begin(installation)
        detectors.wait_ready()
        site.work(ROUNDS)
        assert detectors.stop() == 0
        yield site
    finally:
        detectors.end()


def older(head: bytes) -> bytes:
    decoded = decode_head(head)
    return msgspec.msgpack.encode(msgspec.structs.replace(decoded, version=decoded.version - 1))


STATE: dict[str, tuple[Change, str]] = {
    "heads missing": (lambda name, blob: None if name == HEAD else blob, "does not hold version"),
    "heads of another version": (lambda name, blob: older(blob) if name == HEAD else blob, "does not hold version"),
    "chunks missing": (lambda name, blob: blob if name == HEAD else None, "has lost chunk"),
}


def refused(site: Site, code: int, says: str, installation: Installation) -> None:
    """Check that a start ends with this exit code and message, and writes nothing to Kafka."""
    written = site.written()
    site.detectors.begin(installation)
    assert site.detectors.wait_end() == code, site.detectors.said()
    assert says in site.detectors.said()
    assert site.written() == written


@pytest.mark.parametrize("damage", STATE)
def test_incomplete_state_is_refused(damage: str, site: Site) -> None:
    """The tasks of the first batch restore the state, because the views are gone. The batch has no effect."""
    change, says = STATE[damage]
    written = site.written()
    site.lose_views()
    with damaged_state(site.installation.topics, site.installation.settings.detector, change):
        site.detectors.begin(site.installation)
        assert site.detectors.wait_end() == StateDamaged.exit_code, site.detectors.said()
        assert says in site.detectors.said()
    assert site.written() == written


def test_another_number_of_key_groups_is_refused(site: Site, tmp_path: Path) -> None:
    known = site.installation
    other = Installation.make(tmp_path / "other", known.project, known.topics, key_groups=4)
    refused(site, CheckpointForeign.exit_code, "the state of 8 key groups, but the settings say 4", other)


def test_another_schema_is_refused(site: Site) -> None:
    other = dataclasses.replace(site.installation, schema=SCHEMAS["nullable"])
    refused(site, CheckpointForeign.exit_code, "made with field", other)


def test_a_start_on_an_empty_host_continues(site: Site) -> None:
    """The views and all other files of the host are a cache."""
    before = site.written()
    site.lose_views()
    site.detectors.begin(site.installation)
    site.detectors.wait_ready()
    site.work(2)
    assert site.detectors.stop() == 0
    after = site.written()
    assert all(after[role][: len(before[role])] == before[role] for role in OUTPUTS)
    assert not differences(site.installation, site.documents)[0]


def test_a_stop_in_the_rule_log_holds_until_an_explicit_start(site: Site) -> None:
    site.detectors.begin(site.installation)
    site.detectors.wait_ready()
    site.now_ms += 1
    site.logs.append_rule(b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL_STOP"}', site.now_ms)
    site.logs.flush()
    assert site.detectors.wait_end() == DetectorStopped.exit_code
    written = site.written()
    site.detectors.begin(site.installation)
    assert site.detectors.wait_end() == DetectorStopped.exit_code
    assert site.written() == written
    for flags in (["--resume"], []):  # the stop stays lifted
        site.detectors.begin(site.installation, *flags)
        site.detectors.wait_ready()
        site.work(1)
        assert site.detectors.stop() == 0
    assert not differences(site.installation, site.documents)[0]
