"""One module reads the time of day, so that each reader of a clock chooses between a time and a duration."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.places import ROOT
from tests.support.sources import sources

CLOCK = ROOT / "spark_jobs" / "fraud_rules" / "runtime" / "clock.py"
TIME_OF_DAY = {"time", "time_ns"}
A_USE = re.compile(r"\btime\s*\.\s*time|\bfrom\s+time\b")
"""Each use has this in its text. The other files are not parsed."""


def uses(tree: ast.Module) -> list[int]:
    """The lines that read `time.time` or `time.time_ns`, or import one of them."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in TIME_OF_DAY:
            lines += [node.lineno] if isinstance(node.value, ast.Name) and node.value.id == "time" else []
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            lines += [node.lineno for each in node.names if each.name in TIME_OF_DAY]
    return lines


def uses_in(text: str) -> list[int]:
    """The lines of a module that read the time of day."""
    return uses(ast.parse(text)) if A_USE.search(text) else []


def test_only_the_clock_module_reads_the_time_of_day() -> None:
    others = (path for path in sources("spark_jobs", "plugins", "dags") if path != CLOCK)
    found = [
        f"{path.relative_to(ROOT)}:{line}" for path in others for line in uses_in(path.read_text(encoding="utf-8"))
    ]
    assert uses_in(CLOCK.read_text(encoding="utf-8"))
    assert found == [], "use runtime.clock.now_ms for a time, and steady_ms or time.monotonic for a duration"


@pytest.mark.parametrize(
    "code", ["import time\nx = time.time()", "from time import time_ns", "from  time import (sleep, \n time)"]
)
def test_a_use_is_found(code: str) -> None:
    assert uses_in(code)
