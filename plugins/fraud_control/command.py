"""`fraud control`: rules, lists and alerts through the API, and the operators' commands for the store."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from fraud_control.client import alerts, lists, tokens
from fraud_control.client.rules import approvals_app, rules_app
from fraud_control.client.token import token
from fraud_control.domain.errors import ControlPlaneError
from fraud_rules.cli.display.exit_codes import exit_codes
from fraud_rules.cli.display.usage_errors import CommandGroup
from fraud_rules.cli.nightly import Archive
from fraud_rules.cli.options import Kafka
from fraud_rules.errors import BrokerUnavailable, ConfigError, FraudError

__all__ = ["app", "main"]

app = typer.Typer(
    help="The rule control plane: rules, lists and alerts through its API; audit chain, outbox and drift of its store.",
    cls=CommandGroup, epilog=exit_codes(ConfigError, BrokerUnavailable, ControlPlaneError),
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False,
)  # fmt: skip
audit_app = typer.Typer(help="The audit log.", no_args_is_help=True, rich_markup_mode=None)
app.command()(token)
app.add_typer(rules_app, name="rules")
app.add_typer(approvals_app, name="approvals")
app.add_typer(lists.app, name="lists")
app.add_typer(alerts.app, name="alerts")
app.add_typer(tokens.app, name="tokens")
app.add_typer(audit_app, name="audit")


@audit_app.command()
def verify(
    log: Annotated[
        bool,
        typer.Option("--log", help="Also compare with the rule log, which names the row of every change."),
    ] = False,
) -> None:
    """Check the hash of every row of the audit log. Exit code 38 if a row was altered.

    \b
    Examples:
      fraud control audit verify
      fraud control audit verify --log
    """
    from fraud_control import store_commands

    store_commands.verify(log=log)


@app.command()
def outbox() -> None:
    """Show how many changes wait for the rule log.

    \b
    Examples:
      fraud control outbox
    """
    from fraud_control import store_commands

    store_commands.outbox()


@app.command()
def drift(kafka: Kafka) -> None:
    """Compare the store with the rule log. Exit code 39 if they differ or the store is behind.

    \b
    Examples:
      fraud control drift
    """
    from fraud_control import store_commands

    store_commands.drift(kafka)


@app.command()
def serve(
    kafka: Kafka,
    archive: Archive = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8090,
) -> None:
    """Serve the pages, their API and the background work of the control plane, until interrupted.

    \b
    Examples:
      fraud control serve
      fraud control serve --host 0.0.0.0 --port 8090
    """
    from fraud_control.web.serve import serve

    serve(kafka, archive, host, port)


@app.command()
def publish(kafka: Kafka) -> None:
    """Publish changes, mirror the rule log and apply change data without a server, until interrupted.

    \b
    Examples:
      fraud control publish
    """
    from fraud_control import store_commands

    store_commands.publish(kafka)


class RereadReader(StrEnum):
    """A reader that does not begin again by itself after its topic was recreated."""

    CDC = "cdc"


@app.command()
def reread(reader: Annotated[RereadReader, typer.Argument(help="The reader.")], kafka: Kafka) -> None:
    """Read a recreated topic from its beginning. Refused, with exit code 36, if the topic was not recreated.

    \b
    Examples:
      fraud control reread cdc
    """
    from fraud_control import store_commands

    assert reader is RereadReader.CDC
    store_commands.reread_cdc(kafka)


def main() -> None:
    """Run the command. A FraudError becomes one line on stderr and an exit code."""
    try:
        app(prog_name="fraud control")
    except FraudError as error:
        sys.stderr.write(f"fraud: {' '.join(str(error).split())}\n")
        sys.exit(error.exit_code)
