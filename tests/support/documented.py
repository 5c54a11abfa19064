"""The commands that README, docs and `make help` name, and a fresh clone to run them in."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = ("fraud", "make", "python", ".venv/bin/", "bin/", "echo", "airflow", "docker", "cp", "mvn", "java")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DocumentedCommand:
    """A command from a page, without its comment. `aside`: it appears only in a sentence of a docs page."""

    text: str
    page: str
    aside: bool = False


def documented(root: Path) -> dict[str, DocumentedCommand]:
    """Collect every command of README, docs and examples, and every target of `make help`, by text.

    tests/installation/test_supervision.py runs the commands of the runbooks.
    """
    found = {}
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md")), *sorted((root / "examples").glob("*.md"))):
        content = page.read_text(encoding="utf-8")
        for text in _blocks_of(content):
            found.setdefault(text, DocumentedCommand(text, page.name))
        for text in _spans_of(content):
            found.setdefault(text, DocumentedCommand(text, page.name, aside=page.name != "README.md"))
    for target in _TARGET.findall((root / "Makefile").read_text(encoding="utf-8")):
        found[f"make {target}"] = DocumentedCommand(f"make {target}", "Makefile")
    return found


def _blocks_of(page: str) -> Iterator[str]:
    for language, block in _BLOCK.findall(page):
        if language not in ("json", "yaml"):
            yield from _commands_in(block)


def _spans_of(page: str) -> Iterator[str]:
    for span in _SPAN.findall(_BLOCK.sub("", page)):
        if _is_command(span) and " " in span:
            yield _plain(span)


def _commands_in(block: str) -> Iterator[str]:
    """The commands of a block. A command may span several lines."""
    pending = ""
    for line in block.splitlines():
        pending = f"{pending}\n{line}" if pending else line
        if not _is_command(pending):
            pending = ""
        elif _is_whole(pending):
            yield _plain(pending)
            pending = ""


def _is_command(text: str) -> bool:
    return text.startswith(_PROGRAMS) and text.split(maxsplit=1)[0].removeprefix(".venv/bin/") in {
        *(name for name in _PROGRAMS if not name.endswith("/")), "bin/bootstrap",
    }  # fmt: skip


def _is_whole(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return not text.endswith("\\")


def _plain(text: str) -> str:
    """Remove a trailing comment and the folder of the environment."""
    return re.sub(r"\s+#\s.*$", "", text).strip().removeprefix(".venv/bin/")


def fresh_clone(root: Path, folder: Path) -> Path:
    """Clone the checkout with its uncommitted files, and run bin/bootstrap there. Downloads (jars, uv) are copied."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.check_output(listed, cwd=root).decode().split("\0")
    for name in names:
        if name and (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    shutil.copytree(root / "lib", folder / "lib", ignore=shutil.ignore_patterns("*.jsa*"))
    shutil.copytree(root / ".tools" / "uv", folder / ".tools" / "uv", symlinks=True)
    done = subprocess.run(
        ["bin/bootstrap"], cwd=folder, env=bare_environment(folder), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def bare_environment(clone: Path) -> dict[str, str]:
    """The environment of a new shell, without variables of another checkout or of the make that runs the tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FRAUD_", "PYTHON", "AIRFLOW", "VIRTUAL_ENV", "PYTEST", "UV_PROJECT", "MAKE", "MFLAGS"))
        and name not in ("ARGS", "SECONDS", "WORKERS")
    }
    path = [part for part in os.environ["PATH"].split(os.pathsep) if not part.endswith(".venv/bin")]
    return {**kept, "PATH": os.pathsep.join([str(clone / ".venv" / "bin"), *path])}
