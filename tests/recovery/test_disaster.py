"""The drill of docs/data.md: Kafka is lost, and only the archive is left. Its rule log and its transactions restore
the service, and so does a rebuild after the loss of the state."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import ArchiveForeign, InputInvalid, StateDamaged
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import topic_ends
from fraud_rules.replay.replay import decode_exactly
from fraud_rules.runtime.clock import now_ms
from tests.support.kafka.own_broker import running_broker
from tests.support.kafka.own_topics import OwnTopics, own_topics
from tests.support.kafka.records import produce, read_all
from tests.support.kafka.state_damage import recreate_state
from tests.support.nightly.jobs import JobsInTurn, archive_of
from tests.support.processes.fraud_command import fraud
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.records.payments import payment_record
from tests.support.recovery.verdict import differences
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(1_200)]

PAYMENTS, PAYEES, APART_MS = 600, 20, 10_000
RULES = [
    b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(250),(1440)",
    b"2,(active),(payeeId&beneficiaryId),,(paymentAmount),(MAX),(>=),(39),(60)",
    b"3,(active),(beneficiaryId),,(COUNT_FLINK),(SUM),(>=),(5),(5)",
    b"3,(delete),(beneficiaryId),,(COUNT_FLINK),(SUM),(>=),(5),(5)",
]


def payments(first: int, count: int, start_ms: int) -> list[bytes]:
    """Payments with ascending event times, the first ones hours before now."""
    return [
        payment_record(
            number,
            start_ms + number * APART_MS,
            payeeId=number * 7 % PAYEES,
            beneficiaryId=number % 6,
            paymentAmount=number % 40,
        )
        for number in range(first, first + count)
    ]


class Drill:
    """One detector, before and after the loss of its Kafka."""

    def __init__(self, broker: Broker, topics: OwnTopics, home: Path, project: Project) -> None:
        self.broker, self.topics = broker, topics
        self.installation = Installation.make(home, project, topics, key_groups=4)
        self.start_ms = now_ms() - (2 * PAYMENTS + 100) * APART_MS
        self._sent = 0

    def pay(self, count: int) -> None:
        """Write the next payments to one partition, in their order."""
        produce(self.topics.bootstrap, self.topics.names.transactions, payments(self._sent, count, self.start_ms))
        self._sent += count

    def run(self, *flags: str) -> None:
        """Start the detector, wait until it has evaluated everything, and stop it."""
        detector = RunningDetector(self.installation, *flags)
        names, kafka = self.topics.names, self.topics.kafka
        ends, rules_end = topic_ends(kafka, names.transactions), topic_ends(kafka, names.rules)[0]

        def is_evaluated() -> bool:
            detector.is_ready()
            return self.installation.has_read(ends, rules_end)

        try:
            until(is_evaluated, "everything is evaluated", 300)
            assert detector.stop() == 0, detector.said()[-2000:]
        finally:
            detector.kill()

    def refused_start(self) -> int:
        """Start the detector and return its exit code."""
        detector = RunningDetector(self.installation)
        try:
            return detector.wait_end()
        finally:
            detector.kill()

    def alerts(self) -> list[tuple[Any, ...]]:
        """The alerts of the present Kafka: rule, transaction, value and number of payments in the window."""
        found = [decode_exactly(each.value()) for each in read_all(self.topics.bootstrap, self.topics.names.alerts)]
        return sorted(
            (each["ruleId"], each["triggeringEvent"]["transactionId"], each["triggeringValue"], each["windowCount"])
            for each in found
        )

    def lose_kafka(self) -> None:
        """Delete all data of the broker, and start an empty one at the same address."""
        self.broker.kill()
        shutil.rmtree(self.broker.home)
        self.broker.start()
        self.command("kafka", "topics", "apply")

    def command(self, *arguments: str, code: int = 0) -> str:
        """Run a `fraud` command with the settings of the detector, and return its output."""
        done = fraud(*arguments, env=self.topics.environment)
        assert done.exit_code == code, (done.out, done.err)
        return done.out + done.err

    def faults(self) -> list[str]:
        """The differences between all outputs in the present Kafka and the oracle."""
        records = read_all(self.topics.bootstrap, self.topics.names.transactions)
        documents = {each.value(): decode_exactly(each.value()) for each in records}
        return differences(self.installation, documents)[0]


def test_the_archive_restores_the_service_after_the_loss_of_kafka(
    project: Project, jobs: JobsInTurn, tmp_path: Path
) -> None:
    with running_broker(tmp_path / "broker", project) as broker, own_topics(broker, project) as topics:
        drill = Drill(broker, topics, tmp_path / "site", project)
        produce(topics.bootstrap, topics.names.rules, RULES)
        drill.pay(PAYMENTS)
        drill.run()
        before = drill.alerts()
        assert len(before) > 20
        assert jobs.archive(drill.installation)["transactions"] == PAYMENTS

        lost = time.monotonic()
        drill.lose_kafka()
        assert jobs.run("archive", drill.installation)[0] == ArchiveForeign.exit_code

        aside = drill.installation.home / "archive.aside"
        restore = ("rules", "restore", "--direct", "--archive")
        archive_of(drill.installation).root.rename(aside)
        assert f"{len(RULES)} records written" in drill.command("rules", "restore", "--direct", "--archive", str(aside))
        assert "0 records written" in drill.command(*restore, str(aside))
        assert f"{PAYMENTS} records sent" in drill.command("streams", "load", "--archive", str(aside))
        drill.run()
        print(f"restored in {time.monotonic() - lost:.0f} s")  # noqa: T201 - the figure of docs/data.md
        assert drill.alerts() == before, "the history gives the same alerts again"

        drill.pay(PAYMENTS // 2)
        drill.run()
        recreate_state(topics)
        assert drill.refused_start() == StateDamaged.exit_code
        drill.pay(PAYMENTS // 2)
        drill.run("--rebuild=drill")
        faults = drill.faults()
        assert not faults, "\n".join(faults)
        widest = max(count for rule, transaction, _, count in drill.alerts() if transaction >= PAYMENTS)
        assert widest > PAYMENTS // PAYEES, "windows of new payments have the payments before the loss"

        assert jobs.archive(drill.installation)["transactions"] == 2 * PAYMENTS, "a new archive begins"
        produce(topics.bootstrap, topics.names.rules, [RULES[0]])
        refused = drill.command("rules", "restore", "--direct", "--archive", str(aside), code=InputInvalid.exit_code)
        assert "needs an empty rule log" in refused
