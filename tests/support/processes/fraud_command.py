"""Runs the `fraud` command in this process, as a test's own installation: its broker, and its topics by prefix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from typer.testing import CliRunner

from fraud_rules.cli import app
from fraud_rules.errors import FraudError

_NO_CONTROL_PLANE = {"FRAUD_CONTROL_URL": None, "FRAUD_CONTROL_TOKEN": None, "FRAUD_CONTROL_TOKEN_FILE": "/nowhere"}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command: its output, and its exit code and one-line error from `main`."""

    exit_code: int
    out: str
    err: str


def fraud(*arguments: str, env: Mapping[str, str] | None = None, stdin: str | None = None) -> CommandResult:
    """Run a `fraud` command in this process."""
    result = CliRunner().invoke(app, list(arguments), env={**_NO_CONTROL_PLANE, **(env or {})}, input=stdin)
    if isinstance(result.exception, FraudError):
        return CommandResult(result.exception.exit_code, result.stdout, result.stderr + str(result.exception))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return CommandResult(result.exit_code, result.stdout, result.stderr)
