"""Declared topics as a table, as JSON and as Terraform."""

from __future__ import annotations

import json

from fraud_rules.cli.display.topic_texts import as_json, as_table, as_terraform
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.declared import Topic, load_topics
from tests.support.processes.fraud_command import fraud

TOPICS = (
    Topic("bank.alerts", 2, 1_000, replication=3),
    Topic("7", 1, settings=(("note", 'a "b" \\ ${c} %{d} $e\n'),)),
)


def test_a_table_has_a_line_per_topic() -> None:
    head, first, second = as_table([TOPICS[0], Topic("7", 1)]).splitlines()
    assert head.split() == ["topic", "partitions", "replication", "settings"]
    assert first.split()[:5] == ["bank.alerts", "2", "3", "cleanup.policy=delete", "retention.ms=1000"]
    assert second.split()[:3] == ["7", "1", "default"]


def test_json_has_all_settings() -> None:
    first, second = json.loads(as_json(TOPICS))
    assert first == {"name": "bank.alerts", "partitions": 2, "replication": 3, "settings": TOPICS[0].kafka_settings}
    assert second["replication"] is None


def test_terraform_has_a_resource_per_topic_and_quotes_every_text() -> None:
    assert (
        as_terraform(TOPICS)
        == r"""variable "replication_factor" {
  type        = number
  description = "Copies of each partition. config/topics.yaml leaves their number to the broker; the provider needs it."
}

resource "kafka_topic" "bank_alerts" {
  name               = "bank.alerts"
  partitions         = 2
  replication_factor = 3
  config = {
    "cleanup.policy"         = "delete"
    "retention.ms"           = "1000"
    "retention.bytes"        = "-1"
    "message.timestamp.type" = "LogAppendTime"
  }
}

resource "kafka_topic" "topic-7" {
  name               = "7"
  partitions         = 1
  replication_factor = var.replication_factor
  config = {
    "cleanup.policy"         = "delete"
    "retention.ms"           = "-1"
    "retention.bytes"        = "-1"
    "message.timestamp.type" = "LogAppendTime"
    "note"                   = "a \"b\" \\ $${c} %%{d} $e\u000a"
  }
}
"""
    )
    assert "variable" not in as_terraform(TOPICS[:1])


def test_the_command_prints_the_declared_topics(project: Project) -> None:
    declared = load_topics(project.config / "topics.yaml")
    env = {"FRAUD_HOME": str(project.root)}
    for shown, text in (("table", as_table), ("json", as_json), ("terraform", as_terraform)):
        assert fraud("kafka", "topics", "print", "--format", shown, env=env).out == text(declared)
