"""Wrong values of options and arguments: the message says what is wrong, in words of this product."""

from __future__ import annotations

import pytest

from tests.support.processes.fraud_command import invoke


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("alerts list --last x", "Invalid value for '--last' / '-n': 'x' is not a whole number."),
        ("alerts list --last 1.5", "Invalid value for '--last' / '-n': '1.5' is not a whole number."),
        ("alerts list --last -1", "Invalid value for '--last' / '-n': '-1' is below the minimum 0."),
        ("whatif 1 --days 500", "Invalid value for '--days': '500' is above the maximum 400."),
        ("streams generate --rate fast", "Invalid value for '--rate': 'fast' is not a number."),
        ("rules export --format xml", "for '--format': 'xml' is not one of 'json', 'yaml', 'text'."),
        ("alerts list --nope", "No such option: --nope"),
        ("rules show x", "Invalid value for 'rule_id': 'x' is not a whole number."),
        ("alerts export --limit 0", "Invalid value for '--limit': '0' is below the minimum 1."),
    ],
)
def test_a_wrong_value_is_named_with_its_fault(words: str, message: str) -> None:
    done = invoke(words.split())
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Input should" not in done.stderr
    assert "Value error" not in done.stderr


def test_the_help_lists_the_commands_by_the_alphabet() -> None:
    shown = invoke(["--help"]).stdout
    commands = [
        line.split()[0] for line in shown.split("Commands:")[1].split("Exit codes:")[0].splitlines() if line.strip()
    ]
    assert commands == sorted(commands)
