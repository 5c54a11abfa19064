"""`fraud topics`: creates and changes topics as config/topics.yaml declares."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fraud_rules.cli.options import Kafka
from fraud_rules.configuration.project import Project

app = typer.Typer(
    help="Create and change the topics that config/topics.yaml declares.", no_args_is_help=True, rich_markup_mode=None
)

File = Annotated[
    Path | None, typer.Option("--file", help="File that declares the topics.", show_default="config/topics.yaml")
]


@app.command()
def apply(kafka: Kafka, file: File = None) -> None:
    """Create missing topics and make safe changes. Refuse the whole run, by name, if a change would lose data.

    \b
    Examples:
      fraud topics apply
      fraud topics apply --bootstrap kafka-1:9092,kafka-2:9092
    """
    from fraud_rules.kafka import topics
    from fraud_rules.kafka.declared import load_topics

    declared = load_topics(file or Project.find().config / "topics.yaml")
    for step in topics.apply(kafka, declared):
        print(" ".join([f"{step.kind.done:<9}", step.topic.name, *(f"[{entry}]" for entry in step.differences)]))


@app.command()
def plan(kafka: Kafka, file: File = None) -> None:
    """Show the changes that apply would make or refuse, but change nothing.

    \b
    Example:
      fraud topics plan
    """
    from fraud_rules.kafka import topics
    from fraud_rules.kafka.declared import load_topics

    declared = load_topics(file or Project.find().config / "topics.yaml")
    with topics.admin_client(kafka) as client:
        steps = topics.plan(declared, topics.observe(client, declared))
    for step in steps:
        print(" ".join([f"{step.kind.value:<9}", step.topic.name, *(f"[{entry}]" for entry in step.differences)]))
