"""The tables of the client's commands."""

from __future__ import annotations

from typing import Any

import pytest

from fraud_rules.cli.approvals import print_approvals

APPROVAL: dict[str, Any] = {
    "id": 7, "action": "state", "target": "ACTIVE", "ruleId": 1, "listName": None, "mapName": None,
    "requestedBy": "ann", "requestedAt": 1_700_000_000_000, "comment": "go",
    "says": "Alert when one payer has more than 3 payments within 10 minutes. Only payments where amount > 5 count.",
}  # fmt: skip


def test_a_request_shows_its_rule_in_words_with_the_filter(capsys: pytest.CaptureFixture[str]) -> None:
    print_approvals([APPROVAL])
    assert APPROVAL["says"] in capsys.readouterr().out


def test_a_request_about_a_map_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_approvals([{**APPROVAL, "ruleId": None, "mapName": "limits", "says": ""}])
    assert "map limits" in capsys.readouterr().out
