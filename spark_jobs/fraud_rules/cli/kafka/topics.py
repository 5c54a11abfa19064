"""`fraud kafka topics`: creates and changes topics as config/topics.yaml declares."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.options import AsJson, Kafka, command_group
from fraud_rules.configuration.project import Project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fraud_rules.kafka.declared import Topic

app = command_group("Create and change the topics that config/topics.yaml declares.")


class TopicFormat(StrEnum):
    """The formats of `fraud kafka topics print`."""

    TABLE = "table"
    JSON = "json"
    TERRAFORM = "terraform"


@app.command()
def apply(
    kafka: Kafka,
    skip_unsupported: Annotated[
        bool, typer.Option("--skip-unsupported", help="Leave what the cluster refuses, and list it.")
    ] = False,
) -> None:
    """Create missing topics and make safe changes. Refuse the whole run, by name, if a change would lose data.

    A setting that the cluster refuses is an error, unless --skip-unsupported leaves it.

    \b
    Examples:
      fraud kafka topics apply
      fraud kafka topics apply --bootstrap kafka-1:9092,kafka-2:9092
      fraud kafka topics apply --skip-unsupported
    """
    from fraud_rules.configuration.topic_names import load_topic_names
    from fraud_rules.kafka import topics
    from fraud_rules.kafka.managed.consequences import consequence

    names = load_topic_names(Project.find().config / "topics.yaml")
    for step in topics.apply(kafka, _declared(), skip_unsupported=skip_unsupported):
        print(" ".join([f"{step.kind.done:<9}", step.topic.name, *(f"[{entry}]" for entry in step.differences)]))
        for each in step.unsupported:
            print(f"{'left':<9} {each}\n{'':<9} {consequence(each, names)}")


@app.command()
def plan(kafka: Kafka) -> None:
    """Show the changes that apply would make or refuse, but change nothing.

    \b
    Example:
      fraud kafka topics plan
    """
    from fraud_rules.kafka import topics

    declared = _declared()
    with topics.admin_client(kafka) as client:
        steps = topics.plan(declared, topics.observe(client, declared))
    for step in steps:
        print(" ".join([f"{step.kind.value:<9}", step.topic.name, *(f"[{entry}]" for entry in step.differences)]))


@app.command()
def check(
    kafka: Kafka,
    last: Annotated[int, typer.Option("--last", min=1, max=1_000_000, help="The number of records to read.")] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Read the newest payments with config/schema.yaml, and report what each field contains.

    The report names null shares, ranges, the distance of event times from arrival, duplicate ids, unreadable records,
    and the partition that is behind the others.

    \b
    Examples:
      fraud kafka topics check
      fraud kafka topics check --last 100000 --json | jq .fields
    """
    from fraud_rules.cli.configured import load_context
    from fraud_rules.cli.display.sample_report import print_report
    from fraud_rules.discovery.check import report_on
    from fraud_rules.discovery.sample import of_topic
    from fraud_rules.discovery.understanding import decode_sample
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.runtime.clock import now_ms

    context = load_context()
    require_broker(kafka)
    topic = context.settings.topics.transactions
    sample = of_topic(kafka, topic, last)
    report = report_on(sample, decode_sample(sample, context.schema, now_ms(), topic), context.schema)
    print_report(report, as_json=as_json)


@app.command()
def register() -> None:
    """Register the JSON Schemas of the output topics in the registry that config/schema.yaml names.

    The subject of a topic is its name with `-value`.

    \b
    Example:
      fraud kafka topics register
    """
    from fraud_rules.cli.configured import load_context
    from fraud_rules.errors import ConfigError
    from fraud_rules.kafka.registry.client import open_registry
    from fraud_rules.logs.output_schemas import subjects

    context = load_context()
    registry = context.schema.format.registry
    if registry is None:
        raise ConfigError("config/schema.yaml names no registry: add `registry: {url: ...}`")
    client = open_registry(registry)
    for subject, schema in subjects(context.settings.topics).items():
        print(f"{client.register(subject, schema):>6} {subject}")


@app.command(name="print")
def print_topics(
    shown: Annotated[TopicFormat, typer.Option("--format", help="The format of the output.")] = TopicFormat.TABLE,
) -> None:
    """Print the declared topics with all settings, as apply would create them, except external ones. Needs no broker.

    Terraform gets resources of the provider Mongey/kafka.

    \b
    Examples:
      fraud kafka topics print
      fraud kafka topics print --format terraform > topics.tf
    """
    from fraud_rules.cli.display import topic_texts

    texts = {
        TopicFormat.TABLE: topic_texts.as_table,
        TopicFormat.JSON: topic_texts.as_json,
        TopicFormat.TERRAFORM: topic_texts.as_terraform,
    }
    print(texts[shown]([topic for topic in _declared() if not topic.external]), end="")


def _declared() -> Sequence[Topic]:
    from fraud_rules.kafka.declared import load_topics

    return load_topics(Project.find().config / "topics.yaml")
