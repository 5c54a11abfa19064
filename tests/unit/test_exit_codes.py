"""Every error has an exit code of its own, and `fraud --help` lists them all."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from typer.testing import CliRunner

from fraud_rules.cli import app
from fraud_rules.configuration.project import Project


def declared(project: Project) -> Iterator[tuple[str, int]]:
    """The classes of this product that declare an exit code, and the code."""
    for folder in ("spark_jobs", "plugins"):
        for path in sorted((project.root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield from ((node.name, code) for code in _codes(node))


def _codes(node: ast.ClassDef) -> Iterator[int]:
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        named = any(isinstance(target, ast.Name) and target.id == "exit_code" for target in targets)
        if named and isinstance(value, ast.Constant) and isinstance(value.value, int):
            yield value.value


def test_no_two_errors_share_an_exit_code(project: Project) -> None:
    classes = defaultdict(set)
    for name, code in declared(project):
        classes[code].add(name)
    assert len(classes) > 30
    assert {code: names for code, names in classes.items() if len(names) > 1} == {}


def test_the_help_lists_every_exit_code(project: Project) -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout.split("Exit codes:")[1]
    listed = dict(re.findall(r"^ +([0-9]+)  (\w+): ", shown, re.MULTILINE))
    assert listed.items() >= {(str(code), name) for name, code in declared(project) if code > 2}
