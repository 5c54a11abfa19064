"""Builds the wheels of this checkout with its uv, and installs packages in fresh environments."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support.places import ROOT

__all__ = ["Environment", "build_wheels", "python", "uv"]


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


@dataclass(frozen=True)
class Environment:
    """A virtual environment in the folder `root`."""

    root: Path

    @classmethod
    def create(cls, root: Path, base: Path) -> Self:
        """Create an environment without packages for the Python `base`."""
        subprocess.run([str(uv()), "venv", "--quiet", "--python", str(base), str(root)], check=True)
        return cls(root)

    @property
    def programs(self) -> Path:
        """The folder with Python and the commands."""
        return self.root / "bin"

    def install(self, *requirements: str) -> None:
        """Install packages. `requirements` may contain options of pip."""
        self._pip("install", "--compile-bytecode", *requirements)

    def versions(self) -> str:
        """The installed packages as lines of a constraints file."""
        return self._pip("freeze")

    def program_of(self, package: str, name: str) -> Path:
        """Install a package without its dependencies beside the others, and return the program `name` that it has."""
        folder = self.root / "programs"
        self._pip("install", "--target", str(folder), "--no-deps", package)
        return folder / "bin" / name

    def _pip(self, command: str, *options: str) -> str:
        words = [str(uv()), "pip", command, "--quiet", "--python", str(self.programs / "python"), *options]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
