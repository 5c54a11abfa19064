"""`fraud kafka topics`: creates and changes topics as config/topics.yaml declares."""

from __future__ import annotations

from fraud_rules.cli.options import Kafka, command_group
from fraud_rules.configuration.project import Project

app = command_group("Create and change the topics that config/topics.yaml declares.")


@app.command()
def apply(kafka: Kafka) -> None:
    """Create missing topics and make safe changes. Refuse the whole run, by name, if a change would lose data.

    \b
    Examples:
      fraud kafka topics apply
      fraud kafka topics apply --bootstrap kafka-1:9092,kafka-2:9092
    """
    from fraud_rules.kafka import topics
    from fraud_rules.kafka.declared import load_topics

    declared = load_topics(Project.find().config / "topics.yaml")
    for step in topics.apply(kafka, declared):
        print(" ".join([f"{step.kind.done:<9}", step.topic.name, *(f"[{entry}]" for entry in step.differences)]))


@app.command()
def plan(kafka: Kafka) -> None:
    """Show the changes that apply would make or refuse, but change nothing.

    \b
    Example:
      fraud kafka topics plan
    """
    from fraud_rules.kafka import topics
    from fraud_rules.kafka.declared import load_topics

    declared = load_topics(Project.find().config / "topics.yaml")
    with topics.admin_client(kafka) as client:
        steps = topics.plan(declared, topics.observe(client, declared))
    for step in steps:
        print(" ".join([f"{step.kind.value:<9}", step.topic.name, *(f"[{entry}]" for entry in step.differences)]))
