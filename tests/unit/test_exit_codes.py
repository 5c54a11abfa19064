"""Every error has an exit code of its own, and docs/reference.md names them all."""

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


def test_the_documentation_names_every_exit_code(project: Project) -> None:
    text = (
        (project.root / "docs" / "reference.md").read_text(encoding="utf-8").split("## Exit codes")[1].split("\n## ")[0]
    )
    rows = dict(re.findall(r"^- ([0-9]+) `(\w+)`: ", text, re.MULTILINE))
    assert rows == {str(code): name for name, code in declared(project)}


def test_the_help_lists_the_exit_codes() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout.split("Exit codes:")[1]
    assert {3, 7, 49, *range(33, 40)} <= {int(code) for code in re.findall(r"^ +([0-9]+)  ", shown, re.MULTILINE)}
