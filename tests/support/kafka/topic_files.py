"""Renames the topics of a copied `config/` folder to a test's own names."""

from __future__ import annotations

from pathlib import Path

import yaml

from fraud_rules.configuration.settings import TopicNames
from fraud_rules.configuration.topic_names import TOPICS_FILE, role_of


def name_topics(config: Path, names: TopicNames) -> None:
    """Rename each topic of the folder's declaration to its name in `names`."""
    file = config / TOPICS_FILE
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    for declared, members in document["topics"].items():
        if role := role_of(declared):
            members["name"] = getattr(names, role)
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
