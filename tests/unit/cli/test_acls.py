"""`fraud kafka acls print` and `users`, and their options."""

from __future__ import annotations

import pytest

from fraud_rules.errors import ConfigError, InputInvalid
from tests.support.processes.fraud_command import fraud


def test_the_lines_name_the_principals() -> None:
    options = ("--bootstrap=kafka:9092", "--only=agent", "--principal=agent=User:CN=the agent")
    shown = fraud("kafka", "acls", "print", *options)
    assert shown.exit_code == 0
    assert all("--allow-principal 'User:CN=the agent'" in line for line in shown.out.splitlines())
    assert "User:fraud-detector" in fraud("kafka", "acls", "print").out


def test_renamed_topics_and_another_control_plane_are_in_the_lines() -> None:
    env = {"FRAUD_TOPICS_ALERTS": "bank-alerts", "FRAUD_DETECTOR": "cards"}
    shown = fraud("kafka", "acls", "print", "--control-plane=bank-control", env=env).out
    assert {"bank-alerts", "fraud-rules-cards", "bank-control"} <= set(shown.split())


@pytest.mark.parametrize(
    "option", ["--only=brain", "--principal=brain=User:x", "--principal=agent", "--principal=agent=x"]
)
def test_a_wrong_option_is_named(option: str) -> None:
    assert fraud("kafka", "acls", "print", option).exit_code == InputInvalid.exit_code


def test_users_without_a_password_are_named() -> None:
    env = {"FRAUD_KAFKA_AGENT_PASSWORD": "x", "FRAUD_KAFKA_HEARTBEAT_PASSWORD": ""}
    refused = fraud("kafka", "acls", "users", "--only=agent", "--only=heartbeat", "--only=rule-table", env=env)
    assert refused.exit_code == ConfigError.exit_code
    assert "FRAUD_KAFKA_HEARTBEAT_PASSWORD, FRAUD_KAFKA_RULE_TABLE_PASSWORD" in refused.err
    assert "AGENT" not in refused.err
