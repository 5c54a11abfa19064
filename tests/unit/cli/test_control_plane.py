"""A command goes through the control plane, or with --direct to the rule log."""

from __future__ import annotations

from pathlib import Path

import pytest

from fraud_rules.cli.options import control_plane
from tests.support.places import ROOT
from tests.support.processes.fraud_command import fraud

RULES = str(ROOT / "config" / "rules")
URL = "http://127.0.0.1:1"
PROGRAM = {"FRAUD_CONTROL_URL": URL, "FRAUD_CONTROL_TOKEN": "token"}


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("FRAUD_CONTROL_TOKEN", raising=False)
    monkeypatch.setenv("FRAUD_CONTROL_TOKEN_FILE", str(tmp_path / "token"))
    return tmp_path / "token"


@pytest.mark.parametrize(
    "words",
    [
        ("rules", "save", RULES),
        ("rules", "control", "EXPORT_RULES_CURRENT"),
        ("lists", "save", RULES),
        ("maps", "save", RULES),
    ],
)
def test_a_write_without_a_control_plane_names_both_ways(words: tuple[str, ...]) -> None:
    refused = fraud(*words)
    assert (refused.exit_code, "fraud login" in refused.err, "--direct" in refused.err) == (3, True, True)
    assert fraud(*words, env=PROGRAM).exit_code == 37


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("maps", "set", "limits", "7"), "'7' must have the form key=value"),
        (("maps", "add", "limits"), "give entries, or --file with one per line"),
        (("lists", "set", "mules", "7", "--file", RULES), "give values, or --file with one per line"),
    ],
)
def test_a_change_of_one_list_or_map_is_for_the_control_plane(words: tuple[str, ...], says: str) -> None:
    assert (fraud(*words, env=PROGRAM).exit_code, says in fraud(*words, env=PROGRAM).err) == (2, True)
    assert fraud("lists", "delete", "mules").exit_code == 3
    assert "--direct" in fraud("lists", "delete", "mules", "--direct").err


def test_only_a_direct_write_warns(capsys: pytest.CaptureFixture[str]) -> None:
    assert control_plane(None, direct=False) is None
    assert control_plane(None, direct=True) is None
    assert capsys.readouterr().err == ""
    assert control_plane(URL, direct=True, writes=True) is None
    assert "bypasses the roles, approvals and audit log" in capsys.readouterr().err


def test_an_address_or_a_token_leads_to_the_control_plane(
    nothing_configured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "run `fraud login`" in fraud("rules", "list", env={"FRAUD_CONTROL_URL": URL}).err
    nothing_configured.touch(mode=0o600)
    nothing_configured.write_text("token")
    assert control_plane(None, direct=False) is not None
    nothing_configured.unlink()
    monkeypatch.setenv("FRAUD_CONTROL_TOKEN", "token")
    assert control_plane(None, direct=False) is not None
    assert control_plane(None, direct=True) is None


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("rules", "save", RULES, "--direct", "--comment", "why"), "--comment"),
        (("lists", "save", RULES, "--direct", "--json"), "--json"),
        (("maps", "save", RULES, "--wait", "5"), "--wait"),
    ],
)
def test_an_option_of_the_other_way_is_refused(words: tuple[str, ...], option: str) -> None:
    ended = fraud(*words, env=PROGRAM)
    assert (ended.exit_code, f"{option} has no meaning" in ended.err) == (2, True)


def test_a_restore_needs_the_direct_way(tmp_path: Path) -> None:
    ended = fraud("rules", "restore", f"--archive={tmp_path}")
    assert (ended.exit_code, "add --direct" in ended.err) == (3, True)
