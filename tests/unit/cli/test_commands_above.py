"""Commands of packages above the command line, which come in through entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_commands_of_a_package_that_is_not_installed_are_left_out(tmp_path: Path) -> None:
    about = tmp_path / "elsewhere-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.3\nName: elsewhere\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fraud_rules.commands]\nnowhere = elsewhere.commands:app\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "fraud_rules.cli", "--help"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode, "detector" in done.stdout, "nowhere" in done.stdout) == (0, True, False), done.stderr
