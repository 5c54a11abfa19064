"""Rules in the tables of the terminal: in words, and with the text of their authors as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fraud_rules.cli.display.rule_tables import print_applied, print_validated
from fraud_rules.codec.rules.apply import plan_records, validate_files
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.ruleset import RuleSet
from tests.support.rules import SCHEMA, sum_rule

RULE = sum_rule(7, limit=20000, windowMinutes=20, filter="paymentType = 'CSH'")
WORDS = (
    "Alert when one payer has a total amount of more than 20,000 EUR within 20 minutes. "
    "Only payments where paymentType = 'CSH' count."
)


def shown(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The output of `rules check` and of `rules apply` for a rule of this name."""
    path = tmp_path / "rule.json"
    path.write_text(json.dumps({**RULE, "name": name}))
    validated = validate_files([path], SCHEMA, DetectorSettings().limits)
    print_validated(validated, SCHEMA, as_json=False)
    checked = capsys.readouterr().out
    print_applied(plan_records(validated, RuleSet(), None), SCHEMA, {}, "would be ")
    return checked, " ".join(capsys.readouterr().out.split())


def test_a_rule_is_shown_in_words_with_its_filter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checked, applied = shown("Rapid transfers", tmp_path, capsys)
    assert f"Rapid transfers: {WORDS}" in checked
    assert "would be" in applied
    assert "Alert when one payer has a total amount of more than 20,000 EUR" in applied


@pytest.mark.parametrize("name", ["[/bold] closed", "[red]not red", "rule [1]"])
def test_brackets_in_a_name_are_no_markup(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checked, applied = shown(name, tmp_path, capsys)
    assert name in checked
    assert name in applied


def test_control_characters_of_a_name_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in shown("\x1b[2Jcleared", tmp_path, capsys):
        assert "\x1b[2J" not in text
