"""One module reads the time of day, so that each reader of a clock chooses between a time and a duration."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project

CLOCK = Path("spark_jobs/fraud_rules/runtime/clock.py")
TIME_OF_DAY = {"time", "time_ns"}


def uses(tree: ast.Module) -> list[int]:
    """The lines that read `time.time` or `time.time_ns`, or import one of them."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in TIME_OF_DAY:
            lines += [node.lineno] if isinstance(node.value, ast.Name) and node.value.id == "time" else []
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            lines += [node.lineno for each in node.names if each.name in TIME_OF_DAY]
    return lines


def test_only_the_clock_module_reads_the_time_of_day(project: Project) -> None:
    found = []
    for folder in ("spark_jobs", "plugins", "dags"):
        for path in (project.root / folder).rglob("*.py"):
            where = path.relative_to(project.root)
            if where != CLOCK and "node_modules" not in where.parts:
                found += [f"{where}:{line}" for line in uses(ast.parse(path.read_text(encoding="utf-8")))]
    assert found == [], "use runtime.clock.now_ms for a time, and steady_ms or time.monotonic for a duration"


@pytest.mark.parametrize("code", ["import time\nx = time.time()", "from time import time_ns"])
def test_a_use_is_found(code: str) -> None:
    assert uses(ast.parse(code))
