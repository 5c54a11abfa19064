"""The payment gate never releases a payment that a decision holds, whatever is killed.

A real broker, a real detector and the gate as a process. `FRAUD_KILLS` is the number of kills (4); `FRAUD_SEED`
selects the payments, the order of the victims and the moments.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.consume import await_settled, topic_ends
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.records.payments import payment_record
from tests.support.waiting import until

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(1_800)]

VICTIMS = ("gate", "gate", "detector", "both")
KILLS = int(os.environ.get("FRAUD_KILLS", len(VICTIMS)))
SEED = int(os.environ.get("FRAUD_SEED") or random.randrange(1_000_000))
PAYMENTS_A_KILL = 150
HOLDING = ("REVIEW", "DECLINE")
RULE = {
    "ruleState": "ACTIVE", "aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 1,
    "windowSeconds": 60,
}  # fmt: skip
RULES: list[dict[str, Any]] = [
    {**RULE, "ruleId": 1, "groupingKeyNames": ["payeeId"], "filter": "paymentAmount >= 100", "weight": 10},
    {**RULE, "ruleId": 2, "groupingKeyNames": ["beneficiaryId"], "filter": "paymentAmount >= 400", "weight": 50},
    {**RULE, "ruleId": 3, "groupingKeyNames": [], "filter": "paymentAmount >= 700", "weight": 60},
    {**RULE, "ruleId": 4, "groupingKeyNames": ["payeeId"], "ruleState": "SHADOW", "weight": 1000},
]


class Payments:
    """Writes payments, some of them twice and some of them unreadable for the detector."""

    def __init__(self, topics: OwnTopics, draw: random.Random) -> None:
        self._topics, self._draw = topics, draw
        self._producer = Producer({"bootstrap.servers": topics.bootstrap, "linger.ms": 1, "log_level": 0})
        self._written: list[bytes] = []

    @property
    def ids(self) -> range:
        return range(1, len(self._written) + 1)

    def write(self, count: int) -> None:
        for _ in range(count):
            if self._written and self._draw.random() < 0.05:
                value = self._draw.choice(self._written[-30:])
            else:
                value = self._new(len(self._written) + 1)
                self._written.append(value)
            self._append(value)
            if self._draw.random() < 0.01:
                self._append(b"no payment")
        self._producer.flush()

    def _append(self, value: bytes) -> None:
        self._producer.produce(self._topics.names.transactions, value, partition=self._draw.randrange(2))
        self._producer.poll(0)

    def _new(self, transaction_id: int) -> bytes:
        payee, beneficiary = self._draw.randrange(20), self._draw.randrange(20)
        amount = "no amount" if self._draw.random() < 0.02 else self._draw.randrange(1_000)
        now_ms = int(time.time() * 1_000)
        return payment_record(transaction_id, now_ms, payeeId=payee, beneficiaryId=beneficiary, paymentAmount=amount)


class GateProcess:
    """The gate as a process; `start` starts it again."""

    def __init__(self, installation: Installation) -> None:
        names, prefix = installation.topics.names, installation.topics.prefix
        self.output = f"{prefix}payment-status"
        self._command = [
            sys.executable, str(installation.project.root / "examples" / "payment_gate.py"),
            "--bootstrap", installation.topics.bootstrap, "--name", f"{prefix}gate",
            "--detector", installation.settings.detector, "--transactions", names.transactions,
            "--decisions", names.decisions, "--quarantine", names.quarantine, "--progress", names.detector_progress,
            "--output", self.output,
        ]  # fmt: skip
        self._log = installation.home / "gate.log"
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            start = log.tell()
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)
        until(lambda: b"gate: running" in self._log.read_bytes()[start:] or self.check(), "the gate runs")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def check(self) -> None:
        """Fail if the gate has ended."""
        assert self.process.poll() is None, self._log.read_text()[-3000:]


@contextmanager
def ended(*processes: GateProcess) -> Iterator[None]:
    try:
        yield
    finally:
        for each in processes:
            each.kill()


def holding_decisions(topics: OwnTopics) -> set[str]:
    documents = [json.loads(each.value() or b"") for each in read_all(topics.bootstrap, topics.names.decisions)]
    return {str(each["transactionId"]) for each in documents if each["outcome"] in HOLDING}


def statuses(topics: OwnTopics, gate: GateProcess) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for each in read_all(topics.bootstrap, gate.output):
        document = json.loads(each.value() or b"")
        found[document["transactionId"]].append(document["status"])
    return found


def test_no_kill_makes_the_gate_release_a_payment_that_a_decision_holds(
    topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    print(f"\nFRAUD_SEED={SEED}")  # noqa: T201
    draw = random.Random(SEED)
    installation = Installation.make(tmp_path, project, topics, tick_ms=1_000)
    produce(topics.bootstrap, topics.names.rules, [json.dumps(rule).encode() for rule in RULES])
    payments, detector = Payments(topics, draw), RunningDetector(installation)
    gate = GateProcess(installation)
    order, victims = draw.sample(VICTIMS, len(VICTIMS)), Counter[str]()
    with ended(gate):
        try:
            detector.wait_ready()
            for number in range(KILLS):
                settled = topic_ends(topics.kafka, gate.output)[0]
                payments.write(PAYMENTS_A_KILL)
                gate.check()
                until(lambda end=settled: topic_ends(topics.kafka, gate.output)[0] > end, "a payment is settled")
                time.sleep(draw.uniform(0, 1.0))  # drawn from the seed: part of the experiment
                victim = order[number % len(VICTIMS)]
                victims[victim] += 1
                payments.write(PAYMENTS_A_KILL)
                if victim != "detector":
                    gate.kill()
                if victim != "gate":
                    detector.kill()
                    detector = RunningDetector(installation)
                    detector.wait_ready()
                if victim != "detector":
                    gate.start()
            until(lambda: len(statuses(topics, gate)) == len(payments.ids), "every payment has a status", every_s=1.0)
            gate.check()
        finally:
            detector.kill()
    await_settled(topics.kafka, [gate.output, topics.names.decisions])
    holds, found = holding_decisions(topics), statuses(topics, gate)
    print(f"{dict(victims)}; {len(found)} payments, {len(holds)} with a holding decision")  # noqa: T201
    assert len(holds) > PAYMENTS_A_KILL / 4
    assert {each for each in holds if "RELEASED" in found[each]} == set()
    assert all("HELD" in found[each] for each in holds)
    quarantined = {each.value() for each in read_all(topics.bootstrap, topics.names.quarantine)} - {b"no payment"}
    assert {written for ids in map(_id_of, quarantined) for written in found[ids]} == {"HELD"}
    assert sum(written == ["HELD"] for written in found.values()) == len(holds) + len(quarantined)


def _id_of(value: bytes | None) -> str:
    return str(json.loads(value or b"")["transactionId"])
