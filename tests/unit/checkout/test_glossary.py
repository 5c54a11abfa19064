"""docs/glossary.md: every term once, and a reason for each class name that exists twice."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.support.places import ROOT
from tests.support.sources import sources

MOST_DOUBLED = 6
PRODUCT = ("spark_jobs", "plugins", "dags")
_TERM = re.compile(r"^- \*\*(.+?)\*\*: ", re.MULTILINE)


def test_every_term_is_in_the_glossary_once() -> None:
    terms = _TERM.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    assert len(terms) > 70
    assert len(set(terms)) == len(terms)


def test_a_class_name_has_one_meaning() -> None:
    """A class name of the product that exists twice is in the glossary, with its reason."""
    places = defaultdict(set)
    for path in sources("spark_jobs", "plugins", "bench"):
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places[name].add(path)
    doubled = {name for name, paths in places.items() if len(paths) > 1}
    listed = set(re.findall(r"^\| `(\w+)` \|", _section("Class names that exist twice"), re.MULTILINE))
    assert doubled <= listed
    assert len(listed) <= MOST_DOUBLED


def test_names_contain_only_words_that_stand_for_something() -> None:
    section = _section("Words that names avoid")
    avoided = set(re.findall(r"\w+", section.partition(": ")[2].partition(".")[0]))
    exceptions = set(re.findall(r"`(\w+)`", section))
    assert len(avoided) > 10
    found = defaultdict(set)
    an_avoided = re.compile("|".join(avoided), re.IGNORECASE)
    for path in sources(*PRODUCT):
        text = path.read_text(encoding="utf-8")
        for name in _names(ast.parse(text)) if an_avoided.search(text) else ():
            if avoided & {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}:
                found[name].add(str(path.relative_to(ROOT)))
    assert {name: files for name, files in found.items() if name not in exceptions} == {}
    assert exceptions == found.keys(), "an exception without a name"


def _section(title: str) -> str:
    """The text below a heading of the glossary."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _names(module: ast.Module) -> Iterator[str]:
    """The names of functions, classes, parameters, and of the fields of classes and objects."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
        if isinstance(node, ast.ClassDef):
            fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            fields += [target for each in node.body if isinstance(each, ast.Assign) for target in each.targets]
            yield from (each.id for each in fields if isinstance(each, ast.Name))
