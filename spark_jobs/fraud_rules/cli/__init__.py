"""The `fraud` command.

Each group of commands is a module of this package with its own typer app, added here by one line. A module imports
heavy libraries (Spark, numba, Kafka clients) inside its commands, so that `fraud --help` is instant.
"""

from __future__ import annotations

import sys

import typer

from fraud_rules.cli import (
    alerts,
    approvals,
    archive,
    deploy,
    detect,
    init,
    lists,
    maps,
    quarantine,
    rules,
    status,
    streams,
    tokens,
    whatif,
)
from fraud_rules.cli.display.exit_codes import exit_codes
from fraud_rules.cli.display.usage_errors import CommandGroup
from fraud_rules.cli.kafka import acls, broker, topics
from fraud_rules.cli.labels import commands as labels
from fraud_rules.cli.options import command_group
from fraud_rules.cli.proofs import commands as proofs
from fraud_rules.cli.proofs.erasure import erase
from fraud_rules.configuration.entry_points import loaded_entry_points
from fraud_rules.errors import FraudError

app = typer.Typer(
    name="fraud",
    cls=CommandGroup,
    help="Run-time fraud rules over exact sliding windows: Kafka in, Kafka out, exactly once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
detector = command_group("Run the detector, deploy it through its agent, and watch its supervisors.")
for _command in (detect.run, detect.rebuild, deploy.deploy, deploy.drain, deploy.heartbeat, detect.agent):
    detector.command()(_command)
kafka_group = command_group("The topics and rights in Kafka, and a local broker.")
kafka_group.add_typer(topics.app, name="topics")
kafka_group.add_typer(acls.app, name="acls")
kafka_group.add_typer(broker.app, name="broker")
_groups = {
    "rules": rules.app,
    "lists": lists.app,
    "maps": maps.app,
    "approvals": approvals.app,
    "alerts": alerts.app,
    "labels": labels.app,
    "tokens": tokens.app,
    "detector": detector,
    "archive": archive.app,
    "quarantine": quarantine.app,
    "streams": streams.app,
    "kafka": kafka_group,
}
for _name, _group in _groups.items():
    app.add_typer(_group, name=_name)
app.command()(init.create)
app.command()(init.init)
app.command()(status.status)
app.command()(tokens.login)
app.command()(proofs.prove)
app.command()(proofs.verify)
app.command()(proofs.why)
app.command()(whatif.whatif)
app.command()(erase)


def _add_commands_above() -> None:
    """Add the commands of packages above this one: of the demo, and of the control plane, which a wheel lacks.

    The name of an entry point is the word of the command, after the group and a dot if it belongs to one.
    """
    for path, found in loaded_entry_points("fraud_rules.commands"):
        place, _, name = path.rpartition(".")
        parent = _groups[place] if place else app
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=name)
        else:
            parent.command(name=name)(found)


_add_commands_above()
app.info.epilog = exit_codes()


def main() -> None:
    """Run the command. A FraudError ends it with one line on stderr and the exit code of the error."""
    try:
        app()
    except FraudError as error:
        sys.stderr.write(f"fraud: {' '.join(str(error).split())}\n")
        sys.exit(error.exit_code)
