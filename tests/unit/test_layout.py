"""The layout is the architecture: what may import what, and where things are."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from fraud_rules.configuration.project import Project
from tests.support.places import ROOT

PACKAGE = ROOT / "spark_jobs" / "fraud_rules"
OUTER = ("spark", "kafka", "cli", "demo", "agent")
ENGINES = ("pyspark", "airflow", "kafka", "confluent_kafka")

PROBE = f"""
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
found = [engine for engine in {ENGINES!r} if engine in sys.modules]
sys.exit(f"imported {{found}}" if found else 0)
"""


def domain_modules() -> list[str]:
    paths = [path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py")]
    inner = [path for path in paths if path.parts[1] not in OUTER]
    return sorted(".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in inner)


def test_the_domain_imports_no_engine() -> None:
    modules = domain_modules()
    assert "fraud_rules.model.rule" in modules
    done = subprocess.run([sys.executable, "-c", PROBE, *modules], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_loads_nothing_heavy() -> None:
    probe = PROBE.replace(
        "found =", "found = [heavy for heavy in ('numba', 'pandas') if heavy in sys.modules]; found +="
    )
    done = subprocess.run([sys.executable, "-c", probe, "fraud_rules.cli"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", ["dags", "plugins", "config", "spark_jobs", "tests"])
def test_the_top_level_has(folder: str, project: Project) -> None:
    assert any((project.root / folder).iterdir())


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
