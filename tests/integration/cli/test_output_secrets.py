"""No command prints the connection's secrets, in text or JSON, and no record that a command writes contains them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from fraud_rules.cli import app
from fraud_rules.configuration.project import Project
from fraud_rules.deploy.attempt import AttemptPhase
from fraud_rules.kafka.consume import read_topic
from fraud_rules.kafka.reader import Record
from tests.support.kafka.own_topics import OwnTopics
from tests.support.ports import free_ports
from tests.support.processes.fraud_command import CommandResult, fraud
from tests.support.processes.running_agent import Operations
from tests.support.waiting import until

MARKER = "marker-5d1e"
KEY = f"{MARKER}-{'k' * 32}"
SECRETS = {
    "FRAUD_KAFKA_SASL_USERNAME": "fraud",
    "FRAUD_KAFKA_SASL_PASSWORD": MARKER,
    "FRAUD_KAFKA_AGENT_PASSWORD": MARKER,
}
"""The listener of the test's broker is PLAINTEXT, so clients have these settings and do not send them."""

RULE = '{"ruleId":1,"ruleState":"ACTIVE","groupingKeyNames":["payeeId"],"aggregatorFunctionType":"COUNT",'
RULE += '"limitOperatorType":">","limit":1,"windowMinutes":1}'

PAYMENT = (
    '{"transactionId":1,"eventTime":1700000000000,"payeeId":1,"beneficiaryId":2,"paymentType":"CSH","paymentAmount":5}'
)

CONNECTED = {
    "kafka topics plan": [],
    "kafka topics check": [],
    "init": ["--from-file", "{folder}/payments.jsonl", "--output", "{folder}/schema.yaml", "--yes"],
    "kafka acls print": [],
    "kafka acls apply": [],
    "kafka acls users": ["--only", "agent"],
    "rules save": ["{rule}", "--direct"],
    "rules list": [],
    "rules export": [],
    "rules control": ["EXPORT_RULES_CURRENT", "--direct"],
    "lists save": ["{folder}/list.yaml", "--direct"],
    "lists list": [],
    "lists export": [],
    "maps save": ["{folder}/map.yaml", "--direct"],
    "maps list": [],
    "maps export": [],
    "streams load": ["{folder}/payments.jsonl"],
    "streams generate": ["--rate", "50", "--seconds", "1"],
    "detector deploy": ["--reason", "test"],
    "detector drain": ["--reason", "test"],
    "quarantine list": ["--archive", "{folder}/archive"],
    "quarantine replay": ["--archive", "{folder}/archive", "--reason", "test"],
    "alerts list": [],
    "streams record": ["--output", "{folder}/recording.json"],
    "prove": ["6f0c9a52-2f5e-5b0c-9a53-8f6f7c1d2e40", "--output", "{folder}/proof.zip"],
    "why": ["1"],
    "detector heartbeat": [],
    "status": [],
    "status --agent": [],
}
"""These commands run against a broker, the last three with an agent."""

SIGNED = {"detector deploy", "detector drain"}
FIRST_WITH_AN_AGENT = "detector heartbeat"
USAGE_EXIT_CODE = 2

UNREACHABLE = {
    "kafka topics apply": [],
    "detector run": [],
    "detector rebuild": [],
    "archive run": ["--archive", "{folder}/archive"],
    "archive reevaluate": ["2026-01-01", "--archive", "{folder}/archive"],
    "archive warm-up": ["--archive", "{folder}/archive"],
    "rules restore": ["--archive", "{folder}/archive", "--direct"],
}
"""These commands start Spark or need an archive, and run up to the broker's error. `test_access_control` runs a whole
detector."""

UNCONNECTED = {
    *(
        "kafka topics print",
        "kafka topics register",
        "kafka broker start",
        "kafka broker stop",
        "kafka broker status",
        "rules check",
        "streams replay",
        "whatif",
        "archive import",
        "store verify",
        "verify",
        "store outbox",
        "demo",
        "login",
        "rules show",
        "rules move",
        "rules rollback",
        *(f"{kind} {word}" for kind in ("lists", "maps") for word in ("set", "add", "remove", "show", "delete")),
        "approvals list",
        "approvals approve",
        "approvals reject",
        "alerts mark",
        "alerts export",
        "create",
        "labels load",
        "tokens create",
        "tokens list",
        "tokens revoke",
        "erase",
    ),
}
"""These commands have no connection options."""

AS_PROCESS = {"detector agent", "store drift", "store publish", "store reread", "control-plane serve"}


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


@cache
def by_name() -> dict[str, Any]:
    """All commands by their words. Typer builds them in 0.12 s of CPU time."""
    return dict(commands(get_command(app)))


def options(name: str) -> set[str]:
    command = by_name()[name.removesuffix(" --agent")]
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_is_in_a_table() -> None:
    connected = {*CONNECTED, *UNREACHABLE, *AS_PROCESS} - {"status --agent"}
    assert by_name().keys() == connected | UNCONNECTED
    assert not [name for name in UNCONNECTED if "--bootstrap" in options(name)]


def run(name: str, arguments: list[str], folder: Path, env: dict[str, str]) -> Iterator[CommandResult]:
    """Run a command as text, and with --json where it can."""
    rule = folder / "rule.json"
    rule.write_text(RULE)
    (folder / "payments.jsonl").write_text(PAYMENT)
    (folder / "list.yaml").write_text("{listName: mules, listType: long, values: [1]}")
    (folder / "map.yaml").write_text("{mapName: limits, keyType: long, valueType: decimal, entries: {1: 2.50}}")
    given = [*name.split(), *(each.format(folder=folder, rule=rule) for each in arguments)]
    yield fraud(*given, env=env)
    if "--json" in options(name) and "--direct" not in given:
        yield fraud(*given, "--json", env=env)


def parts(record: Record) -> Iterator[bytes]:
    yield from (record.key or b"", record.value or b"")
    yield from (value or b"" for _, value in record.headers)


def test_no_command_prints_a_secret_and_no_record_contains_one(topics: OwnTopics, tmp_path: Path) -> None:
    operations = Operations(tmp_path, Project.find(), topics, SECRETS, KEY)
    env = {**topics.environment, **SECRETS, "FRAUD_INTENT_KEYS": str(operations.keys)}
    try:
        for name, arguments in CONNECTED.items():
            if name == FIRST_WITH_AN_AGENT:
                operations.agent()
                until(lambda: operations.seen().agent, "the agent reports")
            for ended in run(name, arguments, tmp_path, env):
                assert ended.exit_code != USAGE_EXIT_CODE, ended.err
                assert (name not in SIGNED) or ended.exit_code == 0, ended.err
                assert MARKER not in ended.out + ended.err, name
        drained = operations.decide(None)
        operations.await_phase(drained, AttemptPhase.STOPPED, AttemptPhase.SUPERSEDED)
        assert MARKER not in operations.log.read_text()
    finally:
        operations.end()
    names = asdict(topics.names).values()
    records = {name: [each for part in read_topic(topics.kafka, name).values() for each in part] for name in names}
    written = {topics.names.detector_intents, topics.names.detector_attempts, topics.names.rules}
    assert written <= {name for name, found in records.items() if found}
    for found in records.values():
        assert not [each for each in found if MARKER.encode() in b"".join(parts(each))]
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path != operations.keys]
    assert not [path for path in files if MARKER.encode() in path.read_bytes()]


@pytest.mark.long
def test_no_error_about_the_broker_contains_a_secret(tmp_path: Path) -> None:
    env = {"FRAUD_BOOTSTRAP": f"127.0.0.1:{free_ports(1)[0]}", **SECRETS}
    for name, arguments in UNREACHABLE.items():
        for ended in run(name, arguments, tmp_path, env):
            assert ended.exit_code != 0, name
            assert MARKER not in ended.out + ended.err, name
