"""Builds the wheels of this checkout with its uv."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.places import ROOT

__all__ = ["build_wheels", "python", "uv"]


def uv() -> str | None:
    """The uv of this checkout or of the PATH; None without one."""
    own = ROOT / ".tools" / "uv" / "bin" / "uv"
    return str(own) if own.exists() else shutil.which("uv")


def build_wheels(folder: Path) -> dict[str, Path]:
    """Build all wheels as `make wheel` does, and return them by the names of their distributions."""
    command = [str(uv()), "build", "--all-packages", "--wheel", "--quiet", "--out-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {path.name.partition("-")[0].replace("_", "-"): path for path in folder.glob("*.whl")}


def python(version: str) -> Path | None:
    """A Python of this version (`3.13`) on the PATH or of pyenv, whose shims may not start it; None without one."""
    found = shutil.which(f"python{version}")
    candidates = [
        *([] if found is None else [Path(found)]),
        *Path.home().glob(f".pyenv/versions/{version}.*/bin/python"),
    ]
    for each in candidates:
        if subprocess.run([each, "--version"], capture_output=True, check=False).returncode == 0:
            return each
    return None
