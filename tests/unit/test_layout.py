"""The layout is the architecture: how large a package may be. import-linter checks the layers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from fraud_rules.configuration.project import Project
from tests.support.places import ROOT
from tests.support.sources import sources

MOST_MODULES = 20
SOURCES = ("spark_jobs", "plugins", "dags", "bench", "compose_check", "tests")

PROBE = """
import importlib, sys
importlib.import_module("fraud_rules.cli")
engines = ("pyspark", "airflow", "kafka", "confluent_kafka", "numba", "pandas")
found = [engine for engine in engines if engine in sys.modules]
sys.exit(f"imported {found}" if found else 0)
"""


def programs() -> list[Path]:
    return [path for path in sources(*SOURCES) if path.name == "__main__.py"]


def test_no_package_has_more_modules_than_a_reader_can_survey() -> None:
    sizes = Counter(path.parent.relative_to(ROOT) for path in sources(*SOURCES) if path.name != "__init__.py")
    assert {folder: size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_help_loads_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_program_does_nothing_when_it_is_imported() -> None:
    """A process of anyio's pool imports the main module of its parent under another name."""
    paths = [str(path) for path in programs()]
    code = f"import runpy\nfor path in {paths}: runpy.run_path(path, run_name='__mp_main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_airflow_loads_only_the_registration_module(project: Project) -> None:
    """Airflow executes each file under plugins/ that no pattern of .airflowignore finds, under its bare name."""
    text = (project.root / "plugins" / ".airflowignore").read_text(encoding="utf-8")
    patterns = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert any(_ignores(patterns, name) for name in ("fraud_ops/", "fraud_ops/hooks.py"))
    assert not _ignores(patterns, "fraud_plugin.py")


def _ignores(patterns: list[str], name: str) -> bool:
    """The glob syntax of .airflowignore, as far as ours uses it: the last pattern that matches decides."""
    ignored = False
    for pattern in patterns:
        body = pattern.removeprefix("!").strip("/")
        if re.fullmatch(re.escape(body).replace(r"\*", "[^/]*"), name.strip("/").split("/")[0]):
            ignored = not pattern.startswith("!")
    return ignored
