"""The detector's settings: defaults, the file, the environment over it, and every fault at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.errors import ConfigError
from fraud_rules.kafka.declared import load_topics
from tests.support.places import ROOT

CONFIG = ROOT / "config" / "detector.yaml"


def faults(document: object, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as wrong:
        DetectorSettings.parse(document, environ)
    return str(wrong.value).removeprefix("settings: ").split("; ")


def test_the_shipped_file_states_the_defaults() -> None:
    assert DetectorSettings.load(CONFIG, {}) == DetectorSettings()


def test_every_topic_by_role_is_declared() -> None:
    declared = yaml.safe_load((CONFIG.parent / "topics.yaml").read_text())["topics"]
    assert {getattr(TopicNames(), role.name) for role in dataclasses.fields(TopicNames)} <= set(declared)


def test_a_topic_is_renamed_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "detector.yaml").write_text("key_groups: 4\n")
    (tmp_path / "topics.yaml").write_text(
        "topics:\n"
        "  transactions: {name: livetransactions, partitions: 2, retention: 7d}\n"
        "  shadow-alerts: {name: shadows, partitions: 1, retention: 7d}\n"
        "  alerts: {partitions: 1, retention: 7d}\n"
        "  of-others: {name: theirs, partitions: 1, retention: 7d}\n"
    )
    environ = {"FRAUD_TOPICS_SHADOW_ALERTS": "silent"}
    settings = DetectorSettings.load(tmp_path / "detector.yaml", environ)
    assert settings.topics == TopicNames(transactions="livetransactions", shadow_alerts="silent")
    declared = load_topics(tmp_path / "topics.yaml", environ=environ)
    assert [topic.name for topic in declared] == ["livetransactions", "silent", "alerts", "theirs"]


def test_topics_are_not_named_in_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "detector.yaml").write_text("topics: {alerts: fraud-alerts}\n")
    (tmp_path / "topics.yaml").write_text("topics: {}\n")
    with pytest.raises(ConfigError, match=r"topics are named in .*topics\.yaml"):
        DetectorSettings.load(tmp_path / "detector.yaml", {})


def test_settings_as_text_name_their_topics_themselves(tmp_path: Path) -> None:
    settings = DetectorSettings(topics=TopicNames(alerts="fraud-alerts"))
    (tmp_path / "settings.yaml").write_text(settings.text())
    assert DetectorSettings.load(tmp_path / "settings.yaml", {}) == settings


@pytest.mark.parametrize(
    ("topics", "fault"),
    [
        ("{alerts: {name: a b}}", "topics.alerts must be a Kafka topic name, not 'a b'"),
        ("{alerts: {name: rules}}", "topics: rules is used for two roles"),
        ("[alerts]", "must be a mapping with `topics`"),
    ],
)
def test_a_wrong_name_in_the_declaration_is_reported(tmp_path: Path, topics: str, fault: str) -> None:
    (tmp_path / "detector.yaml").write_text("")
    (tmp_path / "topics.yaml").write_text(f"topics: {topics}\n")
    with pytest.raises(ConfigError, match=r"topics\.yaml: ") as wrong:
        DetectorSettings.load(tmp_path / "detector.yaml", {})
    assert fault in str(wrong.value)


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    path = tmp_path / "detector.yaml"
    path.write_text("# nothing\n")
    assert DetectorSettings.load(path, {}) == DetectorSettings()


def test_the_file_sets_and_the_environment_overrides() -> None:
    loaded = DetectorSettings.parse(
        {"key_groups": 8, "tick_ms": 500, "topics": {"alerts": "a"}, "limits": {"max_window_minutes": 60}},
        {
            "FRAUD_KEY_GROUPS": "64",
            "FRAUD_EVALUATIONS": "true",
            "FRAUD_TOPICS_SHADOW_ALERTS": "s",
            "FRAUD_LIMITS_MAX_LISTS": "3",
            "FRAUD_SOMETHING_ELSE": "ignored",
            "KEY_GROUPS": "ignored",
        },
    )
    assert (loaded.key_groups, loaded.tick_ms, loaded.evaluations) == (64, 500, True)
    assert (loaded.topics.alerts, loaded.topics.shadow_alerts, loaded.topics.rules) == ("a", "s", "rules")
    assert (loaded.limits.max_window_minutes, loaded.limits.max_lists) == (60, 3)


@pytest.mark.parametrize(
    ("document", "environ", "fault"),
    [
        ({"key_group": 8}, {}, "key_group is not a setting; known are detector, key_groups"),
        ({"key_groups": 0}, {}, "key_groups must be a whole number from 1 to 4096, not 0"),
        ({"key_groups": True}, {}, "key_groups must be a whole number from 1 to 4096, not true"),
        ({"key_groups": "16"}, {}, "key_groups must be a whole number from 1 to 4096, not '16'"),
        ({"key_groups": None}, {}, "key_groups must be a whole number from 1 to 4096, not null"),
        ({"tick_ms": 20_001}, {}, "tick_ms must be a whole number from 100 to 20000, not 20001"),
        ({"evaluations": "on"}, {}, "evaluations must be true or false, not 'on'"),
        ({"detector": "My Detector"}, {}, "detector must be lower-case letters"),
        ({"topics": {"alerts": "a b"}}, {}, "topics.alerts must be a Kafka topic name, not 'a b'"),
        ({"topics": {"alert": "a"}}, {}, "topics.alert is not a setting"),
        ({"topics": {"alerts": "rules"}}, {}, "topics: rules is used for two roles"),
        ({"topics": ["alerts"]}, {}, "topics must be a mapping of settings"),
        ({"limits": {"max_lists": -1}}, {}, "limits.max_lists must be a whole number from 1"),
        ({"limits": {"max_fields": 2}}, {}, "limits.max_fields is not a setting; known are max_window_minutes"),
        ({"limits": {"max_calendar_window": "day"}}, {}, "limits.max_calendar_window must be DAY, WEEK or MONTH"),
        ({"decisions": {"review": 101}}, {}, "decisions.review is 101, but must be at most decisions.decline, 100"),
        ({"decisions": {"decline": 0}}, {}, "decisions.decline must be a whole number from 1 to 1000000, not 0"),
        ({}, {"FRAUD_DECISIONS_DECLINE": "49"}, "decisions.review is 50, but must be at most decisions.decline, 49"),
        ([], {}, "the file must be a mapping of settings"),
        ({}, {"FRAUD_KEY_GROUPS": "1e3"}, "key_groups (from FRAUD_KEY_GROUPS) must be a whole number from 1"),
        ({}, {"FRAUD_EVALUATIONS": "maybe"}, "evaluations (from FRAUD_EVALUATIONS) must be true or false"),
        ({}, {"FRAUD_TOPICS_RULES": ""}, "topics.rules (from FRAUD_TOPICS_RULES) must be a Kafka topic name, not ''"),
    ],
)
def test_a_fault_names_the_valid_values(document: object, environ: dict[str, str], fault: str) -> None:
    assert fault in "; ".join(faults(document, **environ))


def test_all_faults_at_once() -> None:
    found = faults({"nonsense": 1, "tick_ms": 0, "topics": {"rules": 5}}, FRAUD_KEY_GROUPS="many")
    assert [fault.split(" ")[0] for fault in found if " known are " not in f" {fault}"] == [
        "nonsense",
        "key_groups",
        "tick_ms",
        "topics.rules",
    ]


@pytest.mark.parametrize("text", ["a: [", "\t- x", "a: 1\x00"])
def test_a_file_that_is_not_yaml_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "detector.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"detector\.yaml: cannot be read as YAML"):
        DetectorSettings.load(path, {})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        DetectorSettings.load(tmp_path / "missing.yaml", {})
