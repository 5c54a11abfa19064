"""A cluster that refuses settings, copies or the creation of topics: apply names each refusal, or leaves it.

`test_access_control` has a client that may create no topic.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable, ConfigError, TopicUnsuitable
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.declared import Topic
from fraud_rules.kafka.suitable import check_topics, settings_of_topic
from fraud_rules.kafka.topics import StepKind
from fraud_rules.runtime.yaml_file import read_yaml
from tests.support.kafka.own_topics import OwnTopics, delete_topics, own_topics
from tests.support.processes.fraud_command import fraud

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

DAY_MS = 86_400_000
REFUSED = {"segment.bytes": "1", "min.cleanable.dirty.ratio": "2"}
"""Values that every broker refuses."""


@pytest.fixture
def own(broker: Broker, project: Project) -> Iterator[OwnTopics]:
    """The declared topics under names of their own. None of them exists."""
    with own_topics(broker, project) as made:
        delete_topics(made.kafka, made.declared)
        yield made


def refusing(topic: Topic) -> Topic:
    return replace(topic, settings=tuple(REFUSED.items()))


def test_a_refusal_names_topic_setting_words_and_option_before_any_change(own: OwnTopics) -> None:
    first, second, *_ = own.declared
    with pytest.raises(ConfigError) as raised:
        topic_admin.apply(own.kafka, [first, refusing(second)])
    said = str(raised.value)
    assert re.search(rf"{second.name}: segment.bytes=1 \(.*Invalid value 1 .*\); ", said), said
    assert re.search(rf"{second.name}: min.cleanable.dirty.ratio=2 \(.*Invalid value 2", said), said
    assert "--skip-unsupported" in said
    with topic_admin.admin_client(own.kafka) as client:
        assert topic_admin.observe(client, [first, second]) == {}


def test_the_option_leaves_refused_settings_of_new_and_of_existing_topics(own: OwnTopics) -> None:
    topic = replace(refusing(own.declared[0]), retention_ms=3_600_000, replication=3)
    (step,) = topic_admin.apply(own.kafka, [topic], skip_unsupported=True)
    assert step.kind is StepKind.CREATE
    assert [each.setting for each in step.unsupported] == ["replication.factor", *REFUSED]
    assert settings_of_topic(own.kafka, topic.name)["retention.ms"] == "3600000"

    longer = replace(topic, retention_ms=None)
    for kind in (StepKind.CHANGE, StepKind.UNCHANGED):
        (step,) = topic_admin.apply(own.kafka, [longer], skip_unsupported=True)
        assert (step.kind, [each.setting for each in step.unsupported]) == (kind, list(REFUSED))
    assert settings_of_topic(own.kafka, topic.name)["retention.ms"] == "-1"


def test_the_option_still_refuses_a_change_that_would_lose_records(own: OwnTopics) -> None:
    topic_admin.apply(own.kafka, [own.declared[0]])
    shorter = replace(refusing(own.declared[0]), retention_ms=1)
    with pytest.raises(ConfigError, match=r"retention.ms is .*, declared 1 \(would delete records\)"):
        topic_admin.apply(own.kafka, [shorter], skip_unsupported=True)


def test_a_topic_that_cannot_be_created_at_all_is_skipped(own: OwnTopics) -> None:
    impossible = replace(own.declared[0], name="x" * 250)
    (step,) = topic_admin.apply(own.kafka, [impossible], skip_unsupported=True)
    assert (step.kind, [each.setting for each in step.unsupported]) == (StepKind.SKIP, [""])


def test_the_command_says_what_the_product_does_without_the_settings(
    own: OwnTopics, project: Project, tmp_path: Path
) -> None:
    """The detector refuses to start for exactly the settings of which the command says so."""
    left = {
        "transactions": "message.timestamp.type",
        "rules": "message.timestamp.type",
        "detector-state": "cleanup.policy",
        "detector-marker": "cleanup.policy",
        "warm-ups": "max.message.bytes",
        "alerts": "message.timestamp.type",
    }
    env = own.environment | {"FRAUD_HOME": str(_project(tmp_path, project, left))}
    refused = fraud("kafka", "topics", "apply", env=env)
    assert refused.exit_code == ConfigError.exit_code
    applied = fraud("kafka", "topics", "apply", "--skip-unsupported", env=env)
    assert applied.exit_code == 0, applied.err
    said = dict(re.findall(r"^left +(\S+): .*\n +(.*)$", applied.out, re.MULTILINE))
    assert said.keys() == {own.prefix + name for name in left}
    # The broker's own limit is the declared one. With a lower one, the detector refuses this topic too.
    topic_admin.apply(own.kafka, [Topic(own.names.warm_ups, 2, retention_ms=90 * DAY_MS, max_record_bytes=1_000_000)])
    with pytest.raises(TopicUnsuitable) as raised:
        check_topics(own.kafka, own.names)
    assert {topic for topic in said if f"{topic} has" in str(raised.value)} == {
        topic for topic, words in said.items() if "refuses to start" in words
    }
    with pytest.raises(TopicUnsuitable) as raised:
        check_topics(own.kafka, own.names, producer_times=True)
    assert "message.timestamp.type" not in str(raised.value)


def test_a_cluster_without_acls_for_clients_points_to_the_printed_ones(broker: Broker) -> None:
    refused = fraud("kafka", "acls", "apply", env={"FRAUD_BOOTSTRAP": broker.bootstrap})
    assert refused.exit_code == BrokerUnavailable.exit_code
    assert "the provider's tools (fraud kafka acls print)" in refused.err


def _project(folder: Path, project: Project, left: Mapping[str, str]) -> Path:
    """A project whose topics have invalid values of these settings."""
    shutil.copytree(project.config, folder / "config")
    path = folder / "config" / "topics.yaml"
    document = read_yaml(path)
    for name, setting in left.items():
        document["topics"][name].setdefault("kafka", {})[setting] = "impossible"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return folder
