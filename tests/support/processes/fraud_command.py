"""Runs the `fraud` command in this process, as a test's own installation: its broker, and its topics by prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from typer import testing
from typer.main import get_command

from fraud_rules.cli import app
from fraud_rules.errors import FraudError

# Typer builds the commands anew for each run, in 0.12 s of CPU time. They keep no state, so the tests build them once.
testing._get_command = cache(get_command)  # type: ignore[attr-defined]

_NO_CONTROL_PLANE = {"FRAUD_CONTROL_URL": None, "FRAUD_CONTROL_TOKEN": None, "FRAUD_CONTROL_TOKEN_FILE": "/nowhere"}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command: its output, and its exit code and one-line error from `main`."""

    exit_code: int
    out: str
    err: str


def invoke(
    words: Sequence[str], env: Mapping[str, str | None] | None = None, stdin: str | None = None
) -> testing.Result:
    """Run a `fraud` command in this process. Its exception is in the result."""
    return testing.CliRunner().invoke(app, words, env=env, input=stdin)


def fraud(*arguments: str, env: Mapping[str, str] | None = None, stdin: str | None = None) -> CommandResult:
    """Run a `fraud` command in this process."""
    result = invoke(arguments, {**_NO_CONTROL_PLANE, **(env or {})}, stdin)
    if isinstance(result.exception, FraudError):
        return CommandResult(result.exception.exit_code, result.stdout, result.stderr + str(result.exception))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return CommandResult(result.exit_code, result.stdout, result.stderr)
