"""Foreign input to the running detector. Hostile records go to quarantine with a reason and never fail a batch. All
other records are evaluated. Records of the Flink demo are accepted unchanged.

The logs have the append times of the corpus, in 2023, so that its records are early, late or ahead as intended.

The changes of a map are long: those of a list take the same way through rule log and detector.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.replay.replay import decode_exactly
from fraud_rules.stream.checkpoint.marker import Marker
from tests.support.kafka.timed_topics import Logs, timed_topics
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.fed_detector import FedDetector
from tests.support.processes.running_detector import Installation
from tests.support.records.corpus import ACCEPTED, APPEND_MS, FUTURE_TOLERANCE_MS, REJECTED
from tests.support.records.flink_demo import CONTROLS, DEFAULT_RULES, DELETIONS, FORM_RULES, TRANSACTIONS, TYPE_HEADER
from tests.support.records.output_schemas import validate_outputs
from tests.support.rules import count_rule
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SECONDS = 20.0
"""The limit for "within seconds" on a busy machine."""

RULE = count_rule(limit=1, windowMinutes=60)

DEMO_MEMBERS: Mapping[int, Mapping[str, Any]] = {
    rule.rule_id: {
        name: int(value) if name in ("ruleId", "windowMinutes") else value
        for name, value in decode_exactly(rule.record).items()
        if value is not None
    }
    for rule in (*DEFAULT_RULES, *FORM_RULES)
}
"""The members that the demo reads: whole numbers are numbers, and no member is null."""

DEEP = 10_000
IN_LIST = "beneficiaryId in list('missing')"
HOSTILE_RULES: Mapping[str, tuple[bytes, set[str]]] = {
    "no JSON, no text form": (b"drop table rules", {"record"}),
    "nothing": (b"", {"record"}),
    "NUL": (b"\x00", {"record"}),
    "not UTF-8": (b'{"ruleId": 1, "name": "\xff"}', {"record"}),
    "cut short": (b'{"ruleId": 1, "ruleState": "ACT', {"record"}),
    "a rule without members": (
        b"{}",
        {
            "ruleState",
            "ruleId",
            "groupingKeyNames",
            "aggregatorFunctionType",
            "limitOperatorType",
            "limit",
            "windowMinutes",
        },
    ),
    "unknown members, operator and aggregate": (
        json.dumps(
            {**RULE, "limitOperatorType": "about", "aggregatorFunctionType": "GUESS", "cooldownSecond": 1}
        ).encode(),
        {"limitOperatorType", "aggregatorFunctionType", "cooldownSecond"},
    ),
    "a window of a hundred years, for an unknown field": (
        json.dumps({**RULE, "windowMinutes": 52_560_000, "groupingKeyNames": ["iban"]}).encode(),
        {"windowMinutes", "groupingKeyNames"},
    ),
    "a limit of 5,000 digits": (json.dumps(RULE).replace('"limit": 1', '"limit": ' + "9" * 5_000).encode(), {"limit"}),
    "a limit that is no number": (json.dumps({**RULE, "limit": float("nan")}).encode(), {"limit"}),
    "a filter 10,000 parentheses deep": (
        json.dumps({**RULE, "filter": "(" * DEEP + "payeeId = 1" + ")" * DEEP}).encode(),
        {"filter"},
    ),
    "JSON 10,000 deep": (b'{"ruleId":' + b"[" * DEEP + b"]" * DEEP + b"}", {"record"}),
    "code for a filter": (json.dumps({**RULE, "filter": "__import__('os').system('true')"}).encode(), {"filter"}),
    "unknown members of a rule and of its baseline": (
        json.dumps({**RULE, "wehn": "payeeId = 1", "baseline": {"windowMinutes": 1, "minCounts": 1}}).encode(),
        {"wehn", "baseline.minCounts"},
    ),
    "two window lengths, and none": (
        json.dumps({**RULE, "windowMinutes": 1, "windowSeconds": 60, "baseline": {}}).encode(),
        {"windowSeconds", "baseline.windowMinutes"},
    ),
    "a baseline of distinct values": (
        json.dumps(
            {
                **RULE,
                "aggregatorFunctionType": "COUNT_DISTINCT",
                "unique": ["beneficiaryId"],
                "baseline": {"windowMinutes": 60},
            }
        ).encode(),
        {"baseline", "baseline.aggregatorFunctionType"},
    ),
    "deviations of a SUM with a negative limit": (
        json.dumps(
            {
                **RULE,
                "aggregatorFunctionType": "SUM",
                "aggregateFieldName": "paymentAmount",
                "limit": -1,
                "baseline": {"windowMinutes": 1, "deviations": True},
            }
        ).encode(),
        {"limit", "baseline", "baseline.aggregatorFunctionType"},
    ),
    "wrong types": (
        json.dumps({**RULE, "when": 5, "baseline": [60], "weight": 1_001, "warmUp": "yes"}).encode(),
        {"when", "baseline", "weight", "warmUp"},
    ),
    "a list in the filters": (
        json.dumps({**RULE, "filter": IN_LIST, "baseline": {"windowMinutes": 1, "filter": IN_LIST}}).encode(),
        {"filter", "baseline.filter"},
    ),
    "a missing list": (json.dumps({**RULE, "when": IN_LIST}).encode(), {"when"}),
    "an addition to a missing list": (
        json.dumps({"listName": "missing", "listOperation": "ADD", "values": [1]}).encode(),
        {"listName"},
    ),
    "a list of two types": (
        json.dumps({"listName": "mixed", "listOperation": "SET", "listType": "long", "values": [1, "x"]}).encode(),
        {"values"},
    ),
    "a list record of two mebibytes": (
        json.dumps({"listName": "long", "listOperation": "SET", "listType": "long", "values": [7] * 2**20}).encode(),
        {"record"},
    ),
    "five megabytes": (json.dumps({**RULE, "name": "x" * 5_000_000}).encode(), {"record"}),
}


@dataclass
class Site(FedDetector):
    """A running detector and its input logs. `now_ms` is the append time of the next record."""

    now_ms: int = APPEND_MS
    transactions: int = 1_000_000

    def rule(self, record: Mapping[str, Any] | bytes) -> int:
        """Append to the rule log. Return the version."""
        return self.logs.append_rule(record if isinstance(record, bytes) else json.dumps(record).encode(), self.now_ms)

    def transaction(self, **members: Any) -> int:
        """Append a good transaction with a new id. Return the id."""
        self.transactions += 1
        tx = {
            "transactionId": self.transactions,
            "eventTime": self.now_ms,
            "payeeId": 1,
            "beneficiaryId": 2,
            "paymentType": "CSH",
            "paymentAmount": "1.00",
            **members,
        }
        self.logs.append(json.dumps(tx).encode(), self.now_ms)
        return self.transactions

    def operations(self, versions: Sequence[int]) -> list[dict[str, Any]]:
        """The detector's reports about these rule records."""
        return [each for each in self.documents("rule_operations") if each["ruleVersion"] in versions]


@pytest.fixture(scope="module")
def site(
    broker: Broker, project: Project, detectors: DetectorsInTurn, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """One detector for all tests of this file. None of them may harm it."""
    topics = timed_topics(broker, project)
    home = tmp_path_factory.mktemp("detector")
    installation = Installation.make(home, project, topics, future_tolerance_ms=FUTURE_TOLERANCE_MS, evaluations=True)
    detectors.begin(installation)
    site = Site(installation, detectors, Logs(topics))
    detectors.wait_ready()
    site.rule(RULE)
    site.await_evaluated()
    yield site
    assert detectors.stop() == 0


def test_every_bad_record_is_quarantined_unchanged_and_every_good_record_is_evaluated(site: Site) -> None:
    names = site.installation.topics.names
    good, expected = [], {}
    before = sum(progress.rows for progress in site.installation.progress())
    for position, rejected in enumerate(REJECTED):
        place = site.logs.append(rejected.record, site.now_ms, partition=position % 2)
        expected[place] = (rejected.reason, rejected.record)
        good.append(site.transaction())
    for accepted in ACCEPTED:
        site.logs.append(accepted.record, site.now_ms, partition=1)
    for partition in (0, 1):
        site.logs.append(None, site.now_ms, partition)  # a tombstone is ignored
    site.await_evaluated()

    quarantined = {}
    for message in site.messages("quarantine"):
        headers = {name: value.decode() for name, value in message.headers()}
        place = int(headers["partition"]), int(headers["offset"])
        assert place not in quarantined, "twice in quarantine"
        assert headers["topic"] == names.transactions
        quarantined[place] = (headers["reason"], message.value())
    assert quarantined == expected
    alerted = [alert["triggeringEvent"]["transactionId"] for alert in site.documents("alerts")]
    assert [identity for identity in alerted if identity in set(good)] == good
    progress = site.installation.progress()
    assert sum(each.rows for each in progress) - before == len(good) + len(ACCEPTED)


def test_hostile_rules_are_rejected_with_all_reasons_and_change_nothing(site: Site) -> None:
    in_force = site.installation.progress()[-1].rules_in_force
    expected = {site.rule(record): fields for record, fields in HOSTILE_RULES.values()}
    site.await_evaluated()
    tombstone = site.logs.append_rule(None, site.now_ms)
    site.await_evaluated()

    operations = site.operations([*expected, tombstone])
    assert {each["ruleVersion"]: each["status"] for each in operations} == dict.fromkeys(
        [*expected, tombstone], "REJECTED"
    )
    for operation in operations:
        wanted = expected.get(operation["ruleVersion"], {"record"})
        assert {reason["field"] for reason in operation["reasons"]} == wanted, operation
    assert site.installation.progress()[-1].rules_in_force == in_force
    identity = site.transaction()
    site.await_evaluated()
    (alert,) = (a for a in site.documents("alerts") if a["triggeringEvent"]["transactionId"] == identity)
    assert (alert["ruleId"], alert["ruleVersion"]) == (1, 0)


def test_a_new_grouping_and_a_new_field_need_no_restart(site: Site) -> None:
    site.now_ms += 1
    first = site.transaction(payeeId=77, beneficiaryId=5)
    site.await_evaluated()
    site.now_ms += 1
    of_known_grouping = {
        "ruleId": 2, "aggregatorFunctionType": "SUM", "aggregateFieldName": "beneficiaryId", "limit": 11,
    }  # fmt: skip
    of_new_grouping = {"ruleId": 3, "groupingKeyNames": ["paymentType", "beneficiaryId"], "limit": 2}
    site.rule({**RULE, **of_known_grouping})
    site.rule({**RULE, **of_new_grouping})
    site.await_evaluated()
    second, third = (site.transaction(payeeId=77, beneficiaryId=6, paymentType="NEW") for _ in range(2))
    site.await_evaluated()

    found = [
        (alert["ruleId"], alert["triggeringEvent"]["transactionId"], alert["triggeringValue"], alert["windowCount"])
        for alert in site.documents("alerts")
        if alert["ruleId"] in (2, 3)
    ]
    assert first < second < third
    # The known grouping has its history at once, also for a field that no rule has used. A new grouping starts empty.
    assert found == [(2, second, "11", 2), (2, third, "17", 3), (3, third, "2", 2)]


def test_controls_take_effect_without_transactions(site: Site) -> None:
    site.now_ms += 1
    version = site.rule({"ruleState": "CONTROL", "controlType": "EXPORT_RULES_CURRENT"})
    site.logs.flush()
    until(lambda: site.operations([version]), "the export is done", SECONDS)
    exported = until(lambda: _exported(site, version), "the export can be read", SECONDS)
    deleted = site.rule({"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"})
    site.logs.flush()
    until(lambda: site.operations([deleted]), "the delete is done", SECONDS)

    assert [each["ruleId"] for each in exported] == [1, 2, 3]
    assert exported[0] == {**RULE, "export": version, "position": 0, "rules": 3, "ruleVersion": 0}
    assert site.installation.progress()[-1].rules_in_force == 0


def _exported(site: Site, version: int) -> list[Any]:
    return [each for each in site.documents("current_rules") if each["export"] == version]


def test_records_of_the_flink_demo_are_accepted_unchanged(site: Site) -> None:
    """Its rules go live, its transactions alert, and the exported rules in force equal its records."""
    site.now_ms += 1
    taken = [site.rule(rule.record) for rule in (*DEFAULT_RULES, *FORM_RULES)]
    taken += [site.rule(record) for record, _ in (*DELETIONS, *CONTROLS)]
    site.now_ms += 1
    for tx in sorted(TRANSACTIONS, key=lambda tx: tx.values[1]):
        site.logs.append(tx.record, site.now_ms, headers=[TYPE_HEADER])
    site.await_evaluated()

    assert [each["status"] for each in site.operations(taken)] == ["LIVE"] * len(taken)
    exported = _exported(site, taken[-1])
    assert [each["ruleId"] for each in exported] == [1, 2, 3, 4, 6, 7, 8, 9]
    assert all(each.items() >= DEMO_MEMBERS[each["ruleId"]].items() for each in exported)
    ids = {tx.values[0]: position for position, tx in enumerate(TRANSACTIONS)}
    alerts = [
        (ids[alert["triggeringEvent"]["transactionId"]], alert["ruleId"])
        for alert in site.documents("alerts")
        if alert["ruleVersion"] in taken
    ]
    assert alerts == [(2, 6), (2, 9), (0, 6), (0, 9), (1, 1), (1, 3), (1, 6), (1, 9)]


def test_ten_thousand_changes_of_a_list_at_once_are_live_or_rejected(site: Site) -> None:
    """Each tenth record has values of another type. The last one changes 100 values."""
    site.now_ms += 1
    site.rule({"listName": "mules", "listOperation": "SET", "listType": "long", "values": [5]})
    site.rule({**RULE, "ruleId": 40, "when": "beneficiaryId in list('mules')"})
    changed = {"listName": "mules", "listOperation": "ADD"}
    versions = [site.rule({**changed, "values": ["x"] if n % 10 == 9 else [1_000 + n]}) for n in range(9_999)]
    versions.append(site.rule({**changed, "values": list(range(50_000, 50_100))}))
    site.await_evaluated()  # the rule log is read before the transactions
    identities = [site.transaction(beneficiaryId=each) for each in (5, 1_009, 1_010, 50_099, 50_100)]
    site.await_evaluated()

    statuses = {each["ruleVersion"]: each["status"] for each in site.documents("rule_operations")}
    assert [n for n, version in enumerate(versions) if statuses[version] == "REJECTED"] == list(range(9, 9_999, 10))
    alerts = {
        alert["triggeringEvent"]["transactionId"]: alert["lists"]
        for alert in site.documents("alerts")
        if alert["ruleId"] == 40
    }
    assert alerts == {identities[at]: {"mules": versions[-1]} for at in (0, 2, 3)}


@pytest.mark.long
def test_ten_thousand_changes_of_a_map_at_once_are_live_or_rejected(site: Site) -> None:
    """Each tenth record has a key of another type. The last one changes 100 entries."""
    site.now_ms += 1
    changed = {"mapName": "limits", "mapOperation": "ADD", "keyType": "long", "valueType": "decimal"}
    site.rule({**changed, "mapOperation": "SET", "entries": {"5": "7.5"}})
    site.rule({**RULE, "ruleId": 41, "when": "map('limits', beneficiaryId) = 7.5"})
    versions = [site.rule({**changed, "entries": {"x" if n % 10 == 9 else str(n): "7.5"}}) for n in range(10, 10_009)]
    versions.append(site.rule({**changed, "entries": {str(n): "7.5" for n in range(50_000, 50_100)}}))
    site.await_evaluated()
    identities = [site.transaction(beneficiaryId=each) for each in (5, 1_009, 1_010, 50_099, 50_100)]
    site.await_evaluated()

    statuses = {each["ruleVersion"]: each["status"] for each in site.documents("rule_operations")}
    assert [n for n, version in enumerate(versions) if statuses[version] == "REJECTED"] == list(range(9, 9_999, 10))
    alerts = {
        alert["triggeringEvent"]["transactionId"]: alert["maps"]
        for alert in site.documents("alerts")
        if alert["ruleId"] == 41
    }
    assert alerts == {identities[at]: {"limits": versions[-1]} for at in (0, 2, 3)}


def test_the_average_latency_is_written_as_plain_text(site: Site) -> None:
    message = until(lambda: site.messages("latency"), "ten seconds are averaged")[0]
    assert float(message.value()) > 0


def test_the_marker_holds_the_rate_of_the_traffic(site: Site) -> None:
    marker = Marker.decode(site.messages("detector_marker")[-1].value())
    assert marker.rate is not None
    assert marker.rate.until_ms == pytest.approx(site.now_ms, abs=FUTURE_TOLERANCE_MS)
    assert marker.rate.rows_in(60_000) > 0


def test_no_batch_failed(site: Site) -> None:
    batches = [progress.batch_id for progress in site.installation.progress()]
    assert batches == list(range(len(batches)))
    assert "ERROR" not in site.detectors.said()


def test_every_record_fits_the_schema_of_its_topic(site: Site) -> None:
    """The last test of this file: it reads what the others have caused."""
    roles = (
        "alerts",
        "decisions",
        "rule_operations",
        "current_rules",
        "detector_progress",
        "evaluations",
    )
    assert validate_outputs(site.installation.topics) >= set(roles)
