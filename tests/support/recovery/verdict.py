"""Compares all outputs of a detector with the oracle's answer to the logs, the recorded cuts and the pins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from confluent_kafka import Message

from fraud_rules.engine.alert import alert_id
from fraud_rules.kafka.consume import await_settled
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.model.rule import Control, ControlType
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.replay import alert_members, decode_exactly
from tests.support import oracle
from tests.support.kafka.records import read_all
from tests.support.oracle.rules.log import fold, read_rule_log
from tests.support.processes.running_detector import Installation

Documents = Mapping[bytes, dict[str, Any] | None]
"""The members of each transaction record, or None if it is malformed."""


@dataclass(frozen=True)
class Run:
    """The contents of all topics after a run."""

    transactions: Sequence[Message]
    rules: Sequence[Message]
    progress: Sequence[BatchProgress]
    written: Mapping[str, Sequence[Message]]

    @classmethod
    def of(cls, installation: Installation) -> Run:
        """Read the committed records of all topics."""
        topics, bootstrap = installation.topics.names, installation.topics.bootstrap
        roles = (
            "alerts", "shadow_alerts", "decisions", "restrictions", "late_transactions", "quarantine",
            "rule_operations", "current_rules",
        )  # fmt: skip
        outputs = [getattr(topics, role) for role in (*roles, "detector_progress")]
        await_settled(installation.topics.kafka, outputs)
        return cls(
            read_all(bootstrap, topics.transactions),
            read_all(bootstrap, topics.rules),
            installation.progress(),
            {role: read_all(bootstrap, getattr(topics, role)) for role in roles},
        )

    def values(self, role: str) -> list[Any]:
        """The records of an output topic, decoded."""
        return [decode_exactly(message.value()) for message in self.written[role]]


def differences(installation: Installation, documents: Documents) -> tuple[list[str], dict[str, int]]:
    """List the faults, and count the records of each kind."""
    run = Run.of(installation)
    schema = TransactionSchema.load(installation.schema)
    stream = recorded_stream(run, installation, documents)
    expected = oracle.evaluate(stream, schema)
    found = [
        *_progress_faults(run),
        *_alert_faults(run, expected["alerts"]),
        *_decision_faults(run, expected["decisions"]),
        *_late_faults(run, expected["late"]),
        *_quarantine_faults(run, documents, set(expected["quarantine"])),
        *_operation_faults(run, {rejected["ruleVersion"] for rejected in expected["rejected"]}),
        *_export_faults(run, stream, schema),
        *_warm_up_faults(run),
    ]
    counts = {role: len(messages) for role, messages in run.written.items()}
    counts |= {"transactions": len(run.transactions), "rules": len(run.rules), "batches": len(run.progress)}
    further = [each["warmUp"] for each in run.values("rule_operations") if _is_further(each)]
    counts["warm_ups"] = sum(each.get("rows", 0) > 0 for each in further)
    return found, counts | {"duplicates": len(expected["duplicates"])}


def recorded_stream(run: Run, installation: Installation, documents: Documents) -> dict[str, Any]:
    """Convert the run to the oracle's input. A record without members stands for malformed records and tombstones."""
    topics, settings = installation.topics.names, installation.settings
    rules = [{"at": rule.timestamp()[1], "rule": (rule.value() or b"").decode()} for rule in run.rules]
    transactions = [
        {"at": tx.timestamp()[1], "partition": tx.partition(), "tx": _document(tx, documents)}
        for tx in run.transactions
    ]
    ends = [{str(p): end for p, end in each.ends_of(topics.transactions).items()} for each in run.progress]
    return {
        "keyGroups": settings.key_groups,
        "settings": {
            "maxOutOfOrdernessMs": settings.max_out_of_orderness_ms,
            "futureToleranceMs": settings.future_tolerance_ms,
            "detailMinutes": settings.limits.detail_minutes,
        },
        "steps": [*rules, *transactions],
        "batches": [
            {
                "offsets": {"transactions": end},
                "pin": each.rules_end,
                "warmUps": [{"version": warm.version, "ends": warm.ends} for warm in each.warm_ups],
            }
            for end, each in zip(ends, run.progress, strict=True)
        ],
    }


def _document(tx: Message, documents: Documents) -> dict[str, Any]:
    value = tx.value()
    return {} if value is None else documents[value] or {}


def _progress_faults(run: Run) -> Iterable[str]:
    """Check that each batch of the history occurs once and in order, with growing offsets."""
    yield from _unlike("histories", 1, len({progress.query_id for progress in run.progress}))
    batches = [each.batch_id for each in run.progress]
    yield from _unlike("batches", list(range(len(batches))), batches)
    pins = [progress.rules_end for progress in run.progress]
    yield from _unlike("pins", sorted(pins), pins)
    yield from _unlike("alerts in progress", len(run.written["alerts"]), sum(each.alerts for each in run.progress))
    quarantined = sum(each.quarantined for each in run.progress)
    yield from _unlike("quarantined in progress", len(run.written["quarantine"]), quarantined)
    tombstones = sum(tx.value() is None for tx in run.transactions)
    accepted = len(run.transactions) - quarantined - tombstones
    yield from _unlike("rows in progress", accepted, sum(each.rows for each in run.progress))


def _alert_faults(run: Run, expected: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Check live and shadow alerts in arrival order, with their ids and restrictions."""
    wanted = [
        {
            **alert,
            "alertId": alert_id(
                alert["ruleId"], alert["ruleVersion"], alert["key"], alert["transactionId"], alert.get("role")
            ),
        }
        for alert in expected
    ]
    for role, shadow in (("alerts", False), ("shadow_alerts", True)):
        mine = [alert for alert in wanted if alert["shadow"] is shadow]
        yield from _unlike(role, mine, [alert_members(alert) for alert in run.values(role)])
    restricting = [each for each in run.values("alerts") if each["violatedRule"].get("action") == "RESTRICT"]
    yield from _unlike("restrictions", _ids(restricting), _ids(run.values("restrictions")))


def _decision_faults(run: Run, expected: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Check the decisions in arrival order, and that they name the published alerts."""
    written = run.values("decisions")
    named = [[(alert["ruleId"], alert["ruleVersion"], alert["weight"]) for alert in each["alerts"]] for each in written]
    wanted = [
        [(alert["ruleId"], alert["ruleVersion"], alert["weight"]) for alert in each["alerts"]] for each in expected
    ]
    yield from _unlike("alerts of decisions", wanted, named)
    for name in ("transactionId", "score", "outcome", "eventTime"):
        yield from _unlike(f"{name} of decisions", [each[name] for each in expected], [each[name] for each in written])
    alert_ids = [alert["alertId"] for each in written for alert in each["alerts"]]
    yield from _unlike("alert ids of decisions", _ids(run.values("alerts")), alert_ids)


def _ids(documents: Sequence[Any]) -> list[str]:
    return [document["alertId"] for document in documents]


def _late_faults(run: Run, expected: Sequence[Any]) -> Iterable[str]:
    """Check late transactions in arrival order, each partition and offset once."""
    late = run.values("late_transactions")
    yield from _unlike("late", expected, [each["transaction"]["transactionId"] for each in late])
    yield from _unlike("late places", len({(each["partition"], each["offset"]) for each in late}), len(late))


def _quarantine_faults(run: Run, documents: Documents, too_far_ahead: set[Any]) -> Iterable[str]:
    """Check that the quarantine has every unreadable record once, with its bytes and its place, and no other record."""
    expected = {}
    for tx in run.transactions:
        if tx.value() is None:
            continue
        members = documents[tx.value()]
        if members is None or members["transactionId"] in too_far_ahead:
            expected[str(tx.partition()), str(tx.offset())] = tx.value()
    got = []
    for message in run.written["quarantine"]:
        headers = {name: value.decode() for name, value in message.headers() or ()}
        got.append(((headers["partition"], headers["offset"]), message.value()))
        if not headers["reason"]:
            yield f"quarantine: no reason for {headers}"
    yield from _unlike("quarantine", sorted(expected.items()), sorted(got))


def _operation_faults(run: Run, rejected: set[int]) -> Iterable[str]:
    """Check one operation for each rule record, in order, in the batch whose pin first includes it."""
    expected = []
    for rule in run.rules:
        version = rule.offset()
        batch = next((each.batch_id for each in run.progress if each.rules_end > version), None)
        expected.append((version, "REJECTED" if version in rejected else "LIVE", batch))
    got = [
        (each["ruleVersion"], each["status"], each["batchId"])
        for each in run.values("rule_operations")
        if not _is_further(each)
    ]
    yield from _unlike("rule operations", expected, got)


def _is_further(report: Mapping[str, Any]) -> bool:
    """Whether a report on a rule follows its first report."""
    warm_up = report.get("warmUp") or {}
    # The first report of a rule whose history is already there names the batch that has added it.
    return warm_up.get("state") in ("RUNNING", "REFUSED") or "rows" in warm_up


def _warm_up_faults(run: Run) -> Iterable[str]:
    """Check that each warm-up has been added once, and has one report about its end."""
    added = [each.version for progress in run.progress for each in progress.warm_ups]
    reports = [each for each in run.values("rule_operations") if _is_further(each)]
    ended = [each["ruleVersion"] for each in reports if each["warmUp"]["state"] != "RUNNING"]
    yield from _unlike("warm-ups", sorted(set(added)), sorted(added))
    yield from _unlike("reports about warm-ups", sorted(set(ended)), sorted(ended))
    yield from _unlike("warm-ups without a report", [], sorted(set(added) - set(ended)))


def _export_faults(run: Run, stream: Mapping[str, Any], schema: TransactionSchema) -> Iterable[str]:
    """Check that each export has the rules in force, then the lists and then the maps, each once."""
    log = read_rule_log(stream, schema)
    expected: list[tuple[Any, ...]] = []
    for entry in log:
        if entry.change == Control(ControlType.EXPORT_RULES_CURRENT):
            folded = fold(log[: entry.version + 1])
            expected += [(entry.version, rule_id, rule.version) for rule_id, rule in sorted(folded.rules.items())]
            expected += [
                (entry.version, name, known.version, known.type, len(known.values))
                for name, known in sorted(folded.lists.items())
            ]
            expected += [
                (entry.version, name, mapped.version, mapped.key_type, mapped.value_type, len(mapped.entries))
                for name, mapped in sorted(folded.maps.items())
            ]
    got = [_exported(each) for each in run.values("current_rules")]
    yield from _unlike("exports", expected, got)


def _exported(record: Mapping[str, Any]) -> tuple[Any, ...]:
    if "listName" in record:
        return tuple(record[name] for name in ("export", "listName", "listVersion", "listType", "size"))
    if "mapName" in record:
        names = ("export", "mapName", "mapVersion", "keyType", "valueType", "size")
        return tuple(record[name] for name in names)
    return record["export"], record["ruleId"], record["ruleVersion"]


def _unlike(what: str, expected: Any, got: Any) -> Iterable[str]:
    """Describe the first difference of two values in one line; nothing if they are equal."""
    if expected == got:
        return
    if not isinstance(expected, list) or not isinstance(got, list):
        yield f"{what}: expected {expected}, got {got}"
        return
    first = next(
        (i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b), min(len(expected), len(got))
    )
    here = slice(first, first + 1)
    yield (
        f"{what}: {len(expected)} expected, {len(got)} there, {_surplus(expected, got)} missing, "
        f"{_surplus(got, expected)} too many; from {first} on expected {expected[here]}, got {got[here]}"
    )


def _surplus(these: Sequence[Any], those: Sequence[Any]) -> int:
    """Count the items of the first sequence that are missing from the second."""
    left = [msgspec.json.encode(item, order="deterministic") for item in those]
    known: dict[bytes, int] = {}
    for item in left:
        known[item] = known.get(item, 0) + 1
    surplus = 0
    for item in these:
        encoded = msgspec.json.encode(item, order="deterministic")
        if known.get(encoded, 0):
            known[encoded] -= 1
        else:
            surplus += 1
    return surplus
