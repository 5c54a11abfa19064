"""`fraud kafka broker`: the local Kafka broker for development, tests and the demo."""

from __future__ import annotations

import typer

from fraud_rules.cli.options import command_group
from fraud_rules.configuration.project import Project

app = command_group("Run a local Kafka broker: one KRaft node on loopback, with its data in var/broker.")

_STOPPED_EXIT_CODE = 1


@app.command()
def start() -> None:
    """Start the broker and return once it answers. You can repeat the command, also after a kill.

    FRAUD_BROKER_PORT (9092) and FRAUD_BROKER_CONTROLLER_PORT (default: the next port) set its ports.

    \b
    Examples:
      fraud kafka broker start
      FRAUD_BROKER_PORT=19092 fraud kafka broker start
    """
    from fraud_rules.kafka.broker import Broker

    broker = Broker.of_project(Project.find())
    did = "started" if broker.start() else "is already running"
    print(f"broker {did} at {broker.bootstrap} (process {broker.status().pid}, log {broker.log})")


@app.command()
def stop() -> None:
    """Stop the broker and return once its process has ended. Its data stays.

    \b
    Example:
      fraud kafka broker stop
    """
    from fraud_rules.kafka.broker import Broker

    broker = Broker.of_project(Project.find())
    print("broker stopped" if broker.stop() else "broker was not running")


@app.command()
def status() -> None:
    """Show whether the broker runs and answers. The exit code is 0 if it answers, else 1.

    \b
    Example:
      fraud kafka broker status && fraud kafka topics apply
    """
    from fraud_rules.kafka.broker import Broker

    status = Broker.of_project(Project.find()).status()
    if status.pid is None:
        print("broker is not running")
    else:
        print(
            f"broker {'answers' if status.answers else 'does not answer'} at {status.bootstrap} (process {status.pid})"
        )
    if not status.answers:
        raise typer.Exit(_STOPPED_EXIT_CODE)
