"""Generated streams through the running detector: a real broker, real Spark, real warm-up jobs, and the cuts and pins
that result.

The streams of a group share a detector and its logs. Each stream is a day later than the previous one, after a
DELETE_RULES_ALL. The oracle and a replay evaluate the logs of the group with the recorded batches.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.logs.open_warm_ups import open_requests
from fraud_rules.logs.recorder import record_run
from fraud_rules.logs.rule_status import WarmUpState, read_operations
from fraud_rules.replay.replay import alert_members, claimed_id, decision_members, decode_exactly, replay
from tests.support import oracle
from tests.support.conformance import SCHEMAS, load_schema, same_answer
from tests.support.kafka.records import read_all
from tests.support.kafka.timed_topics import Logs, timed_topics
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.jobs_in_turn import WarmUpsInTurn
from tests.support.processes.running_detector import Installation, covers
from tests.support.streams.generated import warmed_documents
from tests.support.streams.runs import SEED, STREAMS, described, drawn
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

DAY_MS = 86_400_000
GROUP = 4
_TIME = re.compile(r"(?<![\d.])1(?:69|70)\d{10}(?![\d.])")
_FORGET = {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}

Step = Mapping[str, Any]
Answer = Mapping[str, list[Any]]


@pytest.fixture(scope="module")
def detectors(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DetectorsInTurn]:
    turn = DetectorsInTurn(tmp_path_factory.mktemp("detectors"), project)
    yield turn
    turn.end()


@pytest.fixture(scope="module")
def jobs(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmUpsInTurn]:
    turn = WarmUpsInTurn(tmp_path_factory.mktemp("jobs"), project)
    yield turn
    turn.end()


class Site:
    """A detector that evaluates generated streams, and the jobs for their warm-ups."""

    def __init__(self, installation: Installation, jobs: WarmUpsInTurn, seed: int) -> None:
        self.installation = installation
        self._jobs = jobs
        self._logs = Logs(installation.topics)
        self._random = random.Random(seed)

    def run(self, steps: Sequence[Step]) -> None:
        """Append a stream in parts, and run the warm-up job after most of them. Then delete all rules."""
        places = sorted(self._random.sample(range(1, len(steps)), min(2, len(steps) - 1)))
        for start, end in zip([0, *places], [*places, len(steps)], strict=True):
            self._append(steps[start:end])
            if self._random.random() < 0.75:
                self._warm_up()
        self._append([{"at": max(step["at"] for step in steps) + 1, "rule": _FORGET}])

    def _append(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if "rule" in step:
                self._logs.append_rule(json.dumps(step["rule"]).encode(), step["at"])
            else:
                self._logs.append(json.dumps(step["tx"]).encode(), step["at"], step.get("partition", 0))
        self._logs.flush()
        until(self._has_evaluated_all, "a batch")

    def _has_evaluated_all(self) -> bool:
        progress = self.installation.progress()
        names = self.installation.topics.names
        return bool(progress) and covers(progress[-1], self._logs.ends, names, self._logs.rules_end)

    def _warm_up(self) -> None:
        kafka, settings = self.installation.topics.kafka, self.installation.settings
        waiting = open_requests(kafka, settings).keys()
        if not waiting:
            return
        self._jobs.run(self.installation)

        def have_ended() -> bool:
            reports = read_operations(kafka, settings.topics.rule_operations)
            states = [report.warm_up.state for v in waiting if (report := reports[v]).warm_up is not None]
            return all(state in (WarmUpState.WARM, WarmUpState.REFUSED) for state in states)

        until(have_ended, "the warm-ups end")

    def recorded(self) -> dict[str, Any]:
        """The logs and the recorded batches as a document of `fraud replay`."""
        run = record_run(self.installation.topics.kafka, self.installation.settings)
        rules = [{"at": each.append_ms, "rule": (each.value or b"").decode()} for each in run.rules]
        rows = [
            {"at": each.append_ms, "partition": each.partition, "tx": json.loads(each.value or b"{}")}
            for each in run.transactions
        ]
        batches = [
            {
                "offsets": {"transactions": {str(at): end for at, end in each.ends.items()}},
                "pin": each.pin,
                "refused": {str(version): reasons for version, reasons in each.refused.items()},
                "warmUps": [
                    {"version": warm.version, "ends": {str(at): end for at, end in warm.ends.items()}}
                    for warm in each.warm_ups
                ],
            }
            for each in run.batches
        ]
        settings = {
            "maxOutOfOrdernessMs": run.settings.max_out_of_orderness_ms,
            "futureToleranceMs": run.settings.future_tolerance_ms,
        }
        return {"keyGroups": run.key_groups, "settings": settings, "steps": [*rules, *rows], "batches": batches}

    def published(self) -> dict[str, list[Any]]:
        """The outputs of the detector in the form of `fraud replay`: live alerts, then shadow alerts."""
        topics, bootstrap = self.installation.topics.names, self.installation.topics.bootstrap
        outputs = (
            topics.alerts, topics.shadow_alerts, topics.decisions, topics.late_transactions, topics.rule_operations,
            topics.quarantine,
        )  # fmt: skip
        await_settled(self.installation.topics.kafka, outputs)
        alerts, shadow_alerts, decisions, late, operations = (
            [decode_exactly(message.value()) for message in read_all(bootstrap, topic)] for topic in outputs[:-1]
        )
        return {
            "alerts": [alert_members(alert) for alert in (*alerts, *shadow_alerts)],
            "decisions": [decision_members(decision) for decision in decisions],
            "late": [item["transaction"]["transactionId"] for item in late],
            "quarantine": [claimed_id(message.value()) for message in read_all(bootstrap, topics.quarantine)],
            "rejected": [
                {"ruleVersion": each["ruleVersion"]} for each in operations if each["status"] == "REJECTED"
            ],
        }  # fmt: skip


def a_stream(seed: int, day: int) -> list[Step]:
    """The steps of a generated stream on another day. Its stops are clears, because the detector runs on."""
    text = json.dumps(drawn(seed, warmed_documents())["steps"]).replace("CLEAR_STATE_ALL_STOP", "CLEAR_STATE_ALL")
    steps: list[Step] = json.loads(_TIME.sub(lambda time: str(int(time[0]) + day * DAY_MS), text))
    return steps


@pytest.mark.parametrize("group", range(max(1, STREAMS // 200)))
def test_the_running_detector_agrees_with_the_oracle_after_warm_ups(
    group: int, broker: Broker, project: Project, detectors: DetectorsInTurn, jobs: WarmUpsInTurn, tmp_path: Path
) -> None:
    first = SEED * 1_000_000 + group * GROUP
    draw = random.Random(first)
    installation = Installation.make(
        tmp_path, project, timed_topics(broker, project), SCHEMAS["nullable"], tick_ms=500,
        key_groups=draw.choice([1, 3]), max_out_of_orderness_ms=draw.choice([1_000, 0, 500, 60_000]),
    )  # fmt: skip
    site = Site(installation, jobs, first)
    detectors.begin(installation)
    detectors.wait_ready()
    for position in range(GROUP):
        site.run(a_stream(first + position, 1 + position))
    assert detectors.stop() == 0, detectors.said()[-2000:]
    assert "added without preparation" not in detectors.said()

    document, published = site.recorded(), site.published()
    schema = load_schema("nullable")
    expected = oracle.evaluate(document, schema)
    replayed = replay(document, schema, installation.settings)
    assert not (found := same_answer(expected, replayed)), described(found, document)
    found = same_answer(_live_first(expected), {**published, "duplicates": expected["duplicates"]})
    assert not found, described(found, document)
    joined = [warm_up for batch in document["batches"] for warm_up in batch["warmUps"]]
    assert joined, "the detector added no history"


def _live_first(answer: Answer) -> dict[str, list[Any]]:
    return {**answer, "alerts": sorted(answer["alerts"], key=lambda alert: bool(alert.get("shadow")))}
