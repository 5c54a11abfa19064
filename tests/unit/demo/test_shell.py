"""The file that makes the commands of a shell use the demo."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

from fraud_demo.start.shell import write_environment


def test_a_shell_gets_the_variables_of_the_demo_and_its_commands(tmp_path: Path) -> None:
    path = tmp_path / "environment"
    site = {"AIRFLOW_HOME": "/a 'quoted' folder", "FRAUD_CONTROL_DATABASE": "sqlite:///store", "HOME": "/nowhere"}
    write_environment(path, site, {"FRAUD_BOOTSTRAP": "127.0.0.1:19092"})
    asked = 'echo "$AIRFLOW_HOME" "$FRAUD_CONTROL_DATABASE" "$FRAUD_BOOTSTRAP" "$HOME"; command -v fraud'
    done = subprocess.run(
        ["bash", "-euc", f"source {path}; {asked}"],
        env={"PATH": "/usr/bin:/bin", "HOME": "/home/reader"},
        capture_output=True,
        text=True,
        check=True,
    )
    values, command = done.stdout.splitlines()
    assert values == "/a 'quoted' folder sqlite:///store 127.0.0.1:19092 /home/reader"
    assert Path(command).name == "fraud"


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "environment"
    write_environment(path, {"AIRFLOW__CORE__FERNET_KEY": "secret"}, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
