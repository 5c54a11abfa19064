"""Declared topics as a table, as JSON and as Terraform. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from fraud_rules.kafka.declared import Topic

_SPECIAL = re.compile(r'["\\\x00-\x1f]|[$%](?=\{)')
_VARIABLE = """\
variable "replication_factor" {
  type        = number
  description = "Copies of each partition. config/topics.yaml leaves their number to the broker; the provider needs it."
}
"""


def as_table(topics: Sequence[Topic]) -> str:
    """One line per topic: name, partitions, copies, settings."""
    rows = [("topic", "partitions", "replication", "settings")]
    rows += [
        (
            topic.name,
            str(topic.partitions),
            str(topic.replication or "default"),
            " ".join(f"{name}={value}" for name, value in topic.kafka_settings.items()),
        )
        for topic in topics
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) + "\n"
        for row in rows
    )


def as_json(topics: Sequence[Topic]) -> str:
    """A JSON array of the topics. `replication` null means the broker's default."""
    documents = [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "replication": topic.replication or None,
            "settings": topic.kafka_settings,
        }
        for topic in topics
    ]
    return json.dumps(documents, indent=2) + "\n"


def as_terraform(topics: Sequence[Topic]) -> str:
    """Resources `kafka_topic` of the provider Mongey/kafka."""
    variable = [] if all(topic.replication for topic in topics) else [_VARIABLE]
    return "\n".join([*variable, *("".join(f"{line}\n" for line in _resource(topic)) for topic in topics)])


def _resource(topic: Topic) -> Iterator[str]:
    yield f"resource {_quoted('kafka_topic')} {_quoted(_label(topic.name))} {{"
    yield f"  name               = {_quoted(topic.name)}"
    yield f"  partitions         = {topic.partitions}"
    yield f"  replication_factor = {topic.replication or 'var.replication_factor'}"
    yield "  config = {"
    width = max(len(_quoted(name)) for name in topic.kafka_settings)
    for name, value in topic.kafka_settings.items():
        yield f"    {_quoted(name):<{width}} = {_quoted(value)}"
    yield "  }"
    yield "}"


def _label(name: str) -> str:
    """The name as an identifier. Kafka refuses two topics whose names differ only in `.` and `_`."""
    label = name.replace(".", "_")
    return label if re.match(r"[A-Za-z_]", label) else f"topic-{label}"


def _quoted(text: str) -> str:
    """A string of HCL, without templates."""
    return f'"{_SPECIAL.sub(lambda found: _escaped(found[0]), text)}"'


def _escaped(character: str) -> str:
    if character in "$%":
        return character * 2
    return f"\\{character}" if character in '"\\' else f"\\u{ord(character):04x}"
