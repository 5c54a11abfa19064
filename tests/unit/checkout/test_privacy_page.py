"""docs/privacy.md names each table of the store and each topic once, with its data about people or as one without."""

from __future__ import annotations

import re

import yaml

from fraud_control.store import (  # noqa: F401 -- their tables
    accounts,
    alarm_models,
    alert_models,
    case_models,
    label_models,
    leases,
    notification_models,
    privacy_models,
    submissions,
    token_models,
    what_if_models,
)
from fraud_control.store.models import Base
from fraud_rules.configuration.personal_topics import PERSONAL_TOPICS
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8").partition("## Masking")[0]
_NAME = re.compile(r"`([a-z_-]+)`")


def places(heading: str) -> tuple[list[str], list[str]]:
    """The names in the first column of the table with this heading, and those of the paragraph after it."""
    table, paragraph = PAGE.partition(f"| {heading} |")[2].split("\n\n")[:2]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in _NAME.findall(row.split("|")[1])], _NAME.findall(paragraph)


def test_each_topic_is_on_the_page() -> None:
    personal, others = places("topic")
    declared = yaml.safe_load((ROOT / "config" / "topics.yaml").read_text(encoding="utf-8"))["topics"]
    assert sorted(personal + others) == sorted(declared)
    assert {name.replace("-", "_") for name in personal} == PERSONAL_TOPICS


def test_each_table_of_the_store_is_on_the_page() -> None:
    personal, others = places("table of the store")
    assert sorted(personal + others) == sorted(Base.metadata.tables)
