"""Every conformance case through the running detector: a real broker, real Spark, real cuts and pins.

Cases with the same settings and schema share a detector and its logs. Each case is days later than the previous one,
after a DELETE_RULES_ALL, so that no window, watermark or mark reaches the next case. The records have the append
times of the case (topics with the producer's timestamps). Cases about the calendar keep their date, or have it in
another year.

Each group of cases needs a detector, so the small groups are long: the kernel and the nightly job run them too, and
`test_generated_streams` has detectors with such schemas and settings, by default one with several key groups.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from fraud_rules.codec.transactions.record import claimed_id
from fraud_rules.configuration.project import Project
from fraud_rules.errors import DetectorStopped
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.replay.replay import alert_members, decision_members, decode_exactly
from tests.support.conformance import SCHEMAS, Case, differences, load_cases, load_schema
from tests.support.kafka.records import read_all
from tests.support.kafka.timed_topics import Logs, Place, timed_topics
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.running_detector import Installation
from tests.support.records.output_schemas import validate_outputs
from tests.support.records.relative import relative_alert, relative_decision
from tests.support.recovery.watch import Watch
from tests.support.waiting import MOMENT_S, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

DAY_MS = 86_400_000
CHUNKS = 6
DATED = {
    "local_day_of_23_hours": -4_018,
    "week_and_month": -2_191,
    "hour_in_a_zone": -2_150,
    "month_of_745_hours": 0,
    "weekday_day_month": 0,
    "clock_change": 0,
}
"""Cases whose results depend on the date, in order of time, each with its shift in days: to a date with the same
weekdays and clock changes."""
OF_THE_DEFAULTS = frozenset(
    {"retention_reaches_behind_the_baseline", "out_of_order_within_tolerance", "late_is_kept_but_not_evaluated"}
)
"""Cases whose results depend on the default settings. Other cases without settings have those of most cases."""
MOST_SETTINGS = {"maxOutOfOrdernessMs": 5_000}
FEW = 20
"""A group of at most so many cases is long."""
MANY = 100
"""A detector with so many cases runs long enough to measure the CPU time of rules, once in ten seconds."""
KEY_GROUPS = 16
"""The number for each case with several key groups."""
_TIME = re.compile(r"(?<![\d.])1(?:6[5-9]|7[01])\d{10}(?![\d.])")
_STOP = {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL_STOP"}
_FORGET = {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}

Step = Mapping[str, Any]
CASES = load_cases()


@dataclass(frozen=True)
class Group:
    """The settings and the schema with which a detector starts."""

    schema: str
    key_groups: int
    settings: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, case: Case) -> Group:
        by_default = case.schema == "third_edition" or case.name in OF_THE_DEFAULTS
        settings = case.document.get("settings", {} if by_default else MOST_SETTINGS)
        key_groups = 1 if case.document.get("keyGroups", 1) == 1 else KEY_GROUPS
        return cls(case.schema, key_groups, tuple(settings.items()))

    @property
    def detector_settings(self) -> dict[str, int]:
        return {"key_groups": self.key_groups, **{_snake(name): value for name, value in self.settings}}


@dataclass
class Shifted:
    """A case shifted by some days, and the places of its records in the logs after the write."""

    case: Case
    days: int
    first_version: int = -1
    places: set[Place] = dataclasses.field(default_factory=set)

    @property
    def steps(self) -> list[Step]:
        return list(self._later(self.case.document["steps"]))

    @property
    def cuts(self) -> list[tuple[Mapping[str, int], int]]:
        """The ends by partition and the pin of each batch. The last batch reads the rest."""
        rules = sum("rule" in step for step in self.steps)
        recorded = [
            (batch["offsets"].get("transactions", {}), batch["pin"]) for batch in self.case.document.get("batches", [])
        ]
        return [*recorded, ({"0": len(self.steps), "1": len(self.steps)}, rules)]

    @property
    def is_cut(self) -> bool:
        """Whether the result depends on the cuts of the case."""
        return "batches" in self.case.document or any(step.get("partition") for step in self.case.document["steps"])

    @property
    def stops(self) -> bool:
        return "CLEAR_STATE_ALL_STOP" in json.dumps(self.case.document)

    @property
    def expect(self) -> Mapping[str, Any]:
        expect: Mapping[str, Any] = self._later(self.case.expect)
        return expect

    def _later(self, part: Any) -> Any:
        shift_ms = self.days * DAY_MS
        return json.loads(_TIME.sub(lambda time: str(int(time[0]) + shift_ms), json.dumps(part)))


def write(logs: Logs, steps: Sequence[Step]) -> list[Place]:
    """Append the rules of these steps, then the transactions. Return the places of the transactions."""
    for step in steps:
        if "rule" in step:
            logs.append_rule(_record(step["rule"]), step["at"])
    logs.flush()
    places = [logs.append(_record(step["tx"]), step["at"], step.get("partition", 0)) for step in steps if "tx" in step]
    logs.flush()
    return places


def _record(content: Any) -> bytes:
    return (content if isinstance(content, str) else json.dumps(content)).encode()


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest,
    broker: Broker,
    project: Project,
    detectors: DetectorsInTurn,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Shifted, Mapping[str, Any]]]:
    """The written records and the detector's outputs of a group of cases, by case."""
    group: Group = request.param
    topics = timed_topics(broker, project)
    settings = {**group.detector_settings, "tick_ms": 500}
    installation = Installation.make(
        tmp_path_factory.mktemp("detector"), project, topics, SCHEMAS[group.schema], **settings
    )
    shifted = list(_one_after_the_other(_ordered([case for case in CASES if Group.of(case) == group])))
    with Watch(installation) as watch:
        _run(shifted, installation, detectors, watch)
    is_measured = any(each.rule_cpu for each in installation.progress())
    assert is_measured or len(shifted) < MANY, "the CPU time of rules is measured"
    return {each.case.name: (each, answer) for each, answer in _answers(shifted, installation)}


def _ordered(cases: Sequence[Case]) -> list[Case]:
    """Dated cases come first, then cases with significant cuts. Cases that stop the detector come last."""
    order = list(DATED)
    return sorted(
        cases,
        key=lambda case: (
            order.index(case.name) if case.name in DATED else len(order),
            not Shifted(case, 0).is_cut,
            Shifted(case, 0).stops,
        ),
    )


def _one_after_the_other(cases: Sequence[Case]) -> Iterator[Shifted]:
    """Shift each case by a day more than the case before it, or by as many days as that one lasts, but dated cases as
    `DATED` says."""
    days, end_ms = 0, 0
    for case in cases:
        times_ms = [int(time) for time in _TIME.findall(json.dumps(case.document["steps"]))]
        after = -((min(times_ms, default=end_ms) - end_ms - DAY_MS // 2) // DAY_MS)
        days = DATED[case.name] if case.name in DATED else max(days + 1, after)
        end_ms = max(end_ms, max(times_ms, default=0) + days * DAY_MS)
        yield Shifted(case, days)


def _run(shifted: Sequence[Shifted], installation: Installation, detectors: DetectorsInTurn, watch: Watch) -> None:
    """Write the cases to the logs while a detector reads them. A stop at their end ends the detector."""
    logs = Logs(installation.topics)

    def evaluated() -> bool:
        return watch.has_read(logs.ends, logs.rules_end)

    def evaluated_at_the_end() -> bool:
        """A stop within a case may take effect before all its records are evaluated. Another start continues there."""
        if not evaluated() and detectors.ended() is not None:
            assert detectors.ended() == DetectorStopped.exit_code, detectors.said()
            detectors.begin(installation, "--resume")
            detectors.wait_ready()
        return evaluated()

    detectors.begin(installation)
    detectors.wait_ready()
    until(evaluated, "the first batch", every_s=MOMENT_S)
    for each in (each for each in shifted if each.is_cut):
        each.first_version = logs.rules_end
        for steps in _batches(each):
            with detectors.frozen():
                each.places.update(write(logs, steps))
            until(evaluated, f"a batch of {each.case.name}", every_s=MOMENT_S)
        write(logs, _end_of(each))
    for chunk in _chunks([each for each in shifted if not each.is_cut]):
        with detectors.frozen():
            for each, steps in chunk:
                each.first_version = logs.rules_end if each.first_version < 0 else each.first_version
                each.places.update(write(logs, steps))
        until(evaluated_at_the_end, "a batch")
    # The stop is alone: a batch whose pin has the stop ends the detector, also if it was planned before the records.
    at_ms = (shifted[-1].days + 1) * DAY_MS + shifted[-1].case.document["steps"][-1]["at"]
    write(logs, [{"at": at_ms, "rule": _STOP}])
    assert detectors.wait_end() == DetectorStopped.exit_code, detectors.said()


def _end_of(each: Shifted) -> list[Step]:
    """The records that end a case: no rule and no map of it reaches the next case."""
    refused = {int(version) for batch in each.case.document.get("batches", []) for version in batch.get("refused", {})}
    rules = [step["at"] for step in each.steps if "rule" in step]
    times = [at for version, at in enumerate(rules) if version not in refused]
    at_ms = max([*times, *(step["at"] for step in each.steps if "tx" in step)]) + 1
    records = [step["rule"] for step in each.steps if "rule" in step]
    maps = sorted({record["mapName"] for record in records if isinstance(record, dict) and "mapName" in record})
    deletions = [{"mapName": name, "mapOperation": "DELETE", "source": "test"} for name in maps]
    return [{"at": at_ms, "rule": record} for record in (_FORGET, *deletions)]


def _batches(each: Shifted) -> Iterator[list[Step]]:
    """The steps of each batch: the rules that its pin adds, and its transactions."""
    taken: dict[str, int] = defaultdict(int)
    pinned = 0
    by_partition: dict[str, list[Step]] = defaultdict(list)
    for step in each.steps:
        by_partition["rules" if "rule" in step else str(step.get("partition", 0))].append(step)
    for ends, pin in each.cuts:
        steps = by_partition["rules"][pinned:pin]
        pinned = max(pin, pinned)
        for partition, end in ends.items():
            steps += by_partition[partition][taken[partition] : end]
            taken[partition] = max(end, taken[partition])
        if steps:
            yield steps


def _chunks(shifted: Sequence[Shifted]) -> list[list[tuple[Shifted, list[Step]]]]:
    """The results of a case with one partition do not depend on its cuts. The exception is a cut between two records of
    the same append time: the second may be a rule that applies to the first. So cut elsewhere. Stops come last."""
    steps = [(each, step) for each in shifted for step in (*each.steps, *_end_of(each))]
    until_stop = next((i for i, (each, _) in enumerate(steps) if each.stops), len(steps))
    draw = random.Random(len(steps))
    places = [place for place in range(1, until_stop + 1) if not _is_tied(steps[place - 1 : place + 1])]
    cuts = sorted(draw.sample(places, min(CHUNKS, len(places))))
    return [
        _by_case(steps[start:end])
        for start, end in zip([0, *cuts], [*cuts, len(steps)], strict=True)
        if start < end or end == len(steps)
    ]


def _is_tied(neighbours: Sequence[tuple[Shifted, Step]]) -> bool:
    return (
        len(neighbours) > 1
        and neighbours[0][0] is neighbours[1][0]
        and neighbours[0][1]["at"] == neighbours[1][1]["at"]
    )


def _by_case(steps: Sequence[tuple[Shifted, Step]]) -> list[tuple[Shifted, list[Step]]]:
    """Group neighbouring steps by case."""
    found: list[tuple[Shifted, list[Step]]] = []
    for each, step in steps:
        if not found or found[-1][0] is not each:
            found.append((each, []))
        found[-1][1].append(step)
    return found


def _answers(shifted: Sequence[Shifted], installation: Installation) -> Iterator[tuple[Shifted, Mapping[str, Any]]]:
    """The outputs of each case in the form of `fraud streams replay`: live alerts, then shadow alerts."""
    topics, bootstrap = installation.topics.names, installation.topics.bootstrap
    read = (
        topics.alerts, topics.shadow_alerts, topics.decisions, topics.late_transactions, topics.rule_operations,
        topics.quarantine,
    )  # fmt: skip
    await_settled(installation.topics.kafka, read)
    validate_outputs(installation.topics)
    alerts = [
        alert_members(decode_exactly(message.value()))
        for topic in (topics.alerts, topics.shadow_alerts)
        for message in read_all(bootstrap, topic)
    ]
    decisions = [decision_members(decode_exactly(each.value())) for each in read_all(bootstrap, topics.decisions)]
    late = [decode_exactly(message.value()) for message in read_all(bootstrap, topics.late_transactions)]
    operations = [decode_exactly(message.value()) for message in read_all(bootstrap, topics.rule_operations)]
    quarantine = [
        (dict(message.headers() or ()), message.value()) for message in read_all(bootstrap, topics.quarantine)
    ]
    for each in shifted:
        first = each.first_version
        mine = range(first, first + sum("rule" in step for step in each.steps))
        yield (
            each,
            {
                "alerts": [relative_alert(alert, first) for alert in alerts if alert["ruleVersion"] in mine],
                "decisions": [
                    relative_decision(decision, first)
                    for decision in decisions
                    if decision["alerts"][0]["ruleVersion"] in mine
                ],
                "late": [
                    item["transaction"]["transactionId"]
                    for item in late
                    if (item["partition"], item["offset"]) in each.places
                ],
                "quarantine": [
                    claimed_id(value, load_schema(each.case.schema))
                    for headers, value in quarantine
                    if (int(headers["partition"]), int(headers["offset"])) in each.places
                ],
                # The stream only counts these.
                **{part: each.expect.get(part, []) for part in ("duplicates", "conflictingDuplicates", "nullKeys")},
                "rejected": [
                    {"ruleVersion": operation["ruleVersion"] - first}
                    for operation in operations
                    if operation["ruleVersion"] in mine and operation["status"] == "REJECTED"
                ],
            },
        )


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), name)


def _cases_by_group() -> Iterator[Any]:
    """The parameters of each case, group by group."""
    groups = Counter(map(Group.of, CASES))
    for group, count in groups.items():
        for case in (case for case in CASES if Group.of(case) == group):
            yield pytest.param(group, case, id=str(case), marks=[pytest.mark.long] if count <= FEW else [])


@pytest.mark.parametrize(("answers", "case"), _cases_by_group(), indirect=["answers"], scope="module")
def test_the_running_detector_gives_the_results_of_every_case(
    answers: Mapping[str, tuple[Shifted, Mapping[str, Any]]], case: Case
) -> None:
    asked, answer = answers[case.name]
    expect = {**asked.expect, "alerts": sorted(asked.expect["alerts"], key=lambda alert: bool(alert.get("shadow")))}
    assert not differences(expect, answer), case.shows
