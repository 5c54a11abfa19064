"""Every error has an exit code of its own, and `fraud --help` lists them all."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from tests.support.processes.fraud_command import invoke
from tests.support.sources import sources

_MEMBER = "exit_code"


@cache
def declared() -> list[tuple[str, int]]:
    """The classes of this product that declare an exit code, and the code."""
    texts = (path.read_text(encoding="utf-8") for path in sources("spark_jobs", "plugins"))
    trees = (ast.parse(text) for text in texts if _MEMBER in text)
    classes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return [(each.name, code) for each in classes for code in _codes(each)]


def _codes(node: ast.ClassDef) -> Iterator[int]:
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        named = any(isinstance(target, ast.Name) and target.id == _MEMBER for target in targets)
        if named and isinstance(value, ast.Constant) and isinstance(value.value, int):
            yield value.value


def test_no_two_errors_share_an_exit_code() -> None:
    classes = defaultdict(set)
    for name, code in declared():
        classes[code].add(name)
    assert len(classes) > 30
    assert {code: names for code, names in classes.items() if len(names) > 1} == {}


def test_the_help_lists_every_exit_code() -> None:
    shown = invoke(["--help"]).stdout.split("Exit codes:")[1]
    listed = dict(re.findall(r"^ +([0-9]+)  (\w+): ", shown, re.MULTILINE))
    assert listed.items() >= {(str(code), name) for name, code in declared() if code > 2}
