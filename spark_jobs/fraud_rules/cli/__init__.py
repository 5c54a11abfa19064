"""The `fraud` command.

Each group of commands is a module of this package with its own typer app, added here by one line. A module imports
heavy libraries (Spark, numba, Kafka clients) inside its commands, so that `fraud --help` is instant.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import typer

from fraud_rules.cli import (
    acls,
    agent,
    alerts,
    broker,
    control,
    deploy,
    detect,
    lists,
    load,
    nightly,
    quarantine,
    record,
    replay,
    rules,
    status,
    topics,
    whatif,
)
from fraud_rules.cli.display.exit_codes import exit_codes
from fraud_rules.cli.display.usage_errors import CommandGroup
from fraud_rules.errors import FraudError

__all__ = ["app", "main"]


app = typer.Typer(
    name="fraud",
    cls=CommandGroup,
    help="Run-time fraud rules over exact sliding windows: Kafka in, Kafka out, exactly once.",
    epilog=exit_codes(),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(broker.app, name="broker")
app.add_typer(topics.app, name="topics")
app.add_typer(acls.app, name="acls")
app.add_typer(rules.app, name="rules")
app.add_typer(lists.app, name="lists")
app.add_typer(agent.app, name="agent")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(nightly.archive_app, name="archive")
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)(control.control)
app.command()(load.load)
app.command()(detect.detect)
app.command()(detect.rebuild)
app.command()(deploy.deploy)
app.command()(deploy.drain)
app.command()(deploy.heartbeat)
app.command()(alerts.alerts)
app.command()(status.status)
app.command()(record.record)
app.command()(replay.replay)
app.command()(nightly.reevaluate)
app.command()(whatif.whatif)
app.command(name="warm-up")(nightly.warm_up)
for _command in sorted(entry_points(group="fraud_rules.commands"), key=lambda point: point.name):
    app.command(name=_command.name)(_command.load())  # commands of packages above this one, such as the demo


def main() -> None:
    """Run the command. A FraudError ends it with one line on stderr and the exit code of the error."""
    try:
        app()
    except FraudError as error:
        sys.stderr.write(f"fraud: {' '.join(str(error).split())}\n")
        sys.exit(error.exit_code)
