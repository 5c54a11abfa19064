"""The layout is the architecture: how large a package may be, and what names mean. The layers are import-linter's."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from fraud_rules.configuration.project import Project
from tests.support.places import ROOT

MOST_MODULES = 20
SOURCES = ("spark_jobs", "plugins", "dags", "bench", "tests")

TWO_MEANINGS = {
    "EvaluatedBatch": "what a rebuild needs of a batch, and that batch as it is read from the topics",
    "Liveness": "whether payments are evaluated, and the same value in the API",
    "WhatIfQuestion": "the question that a page asks, and that question with its days of event time",
    "_Alert": "the members of an alert record that a reader needs: evidence on a page, lines of a command",
    "_Correction": "the members of a correction that a reader needs: pages, nights, lines of a command",
}
"""The class names of the product that stand for two things, with both meanings. There are at most six."""

PROBE = """
import importlib, sys
importlib.import_module("fraud_rules.cli")
engines = ("pyspark", "airflow", "kafka", "confluent_kafka", "numba", "pandas")
found = [engine for engine in engines if engine in sys.modules]
sys.exit(f"imported {found}" if found else 0)
"""


def modules(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [path for path in found if "node_modules" not in path.parts]


def test_no_package_has_more_modules_than_a_reader_can_survey() -> None:
    sizes = Counter(path.parent.relative_to(ROOT) for path in modules(*SOURCES) if path.name != "__init__.py")
    assert {folder: size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, set[Path]] = defaultdict(set)
    for path in modules("spark_jobs", "plugins"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(path.relative_to(ROOT))
    assert {name for name, found in places.items() if len(found) > 1} == set(TWO_MEANINGS)
    assert len(TWO_MEANINGS) <= 6


def test_help_loads_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
