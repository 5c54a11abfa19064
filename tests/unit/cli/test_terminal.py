"""Commands that ask for a value, without a person who could answer."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", [("detector", "drain"), ("detector", "deploy")])
def test_a_missing_value_is_named_without_a_terminal(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "fraud_rules.cli", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, "Missing option '--reason'" in done.stderr) == (2, True), done.stderr


def test_an_irreversible_control_needs_yes_without_a_terminal() -> None:
    command = [sys.executable, "-m", "fraud_rules.cli", "rules", "control", "CLEAR_STATE_ALL", "--direct"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "CLEAR_STATE_ALL cannot be undone: add --yes" in done.stderr and "Aborted" not in done.stderr
