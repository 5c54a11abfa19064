"""The compiled kernel is kept where every checkout of a user finds it, and bootstrap compiles all of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project

MISSES = """
import importlib, json, pkgutil, sys
import fraud_rules.engine.window as window
from fraud_rules.replay.kernel_cache import load_kernel
from fraud_rules.replay.replay import replay
from fraud_rules.configuration.settings import DetectorSettings

load_kernel()
if sys.argv[1:]:
    from tests.support.conformance import load_cases, load_schema
    for case in load_cases():
        replay(case.document, load_schema(case.schema), DetectorSettings())
functions = {
    f"{module.name.rpartition('.')[2]}.{name}": getattr(value, "stats", None)
    for module in pkgutil.walk_packages(window.__path__, "fraud_rules.engine.window.")
    for name, value in vars(importlib.import_module(module.name)).items()
}
print(json.dumps([name for name, stats in functions.items() if stats is not None and stats.cache_misses]))
"""

COMPILED = """
import importlib, json, pkgutil, sys
import fraud_rules.engine.window as window
from fraud_rules.replay import kernel_cache

getattr(kernel_cache, sys.argv[1])()
print(json.dumps([
    f"{module.name.rpartition('.')[2]}.{name}"
    for module in pkgutil.walk_packages(window.__path__, "fraud_rules.engine.window.")
    for name, value in vars(importlib.import_module(module.name)).items()
    if getattr(value, "signatures", None)
]))
"""


def compiled(function: str) -> set[str]:
    """The window functions that a function of `kernel_cache` compiles or loads."""
    done = subprocess.run([sys.executable, "-c", COMPILED, function], capture_output=True, check=True)
    return set(json.loads(done.stdout))


def called_by_the_state(project: Project) -> set[str]:
    """The window functions that the code of the state calls."""
    folder = project.root / "spark_jobs" / "fraud_rules" / "engine" / "state"
    call = re.compile(r"\b((?:displaced|hash_tables|key_rows|resets|search|step_sums)\.[a-z]\w*)\(")
    names = {name for source in folder.glob("*.py") for name in call.findall(source.read_text())}
    return names - {"displaced.merge", "displaced.provide"}  # methods of `DisplacedRows`


def misses(path: str, *arguments: str, **environment: str) -> list[str]:
    """The window functions that a process compiles because it does not find their code."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", MISSES, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def filled() -> set[str]:
    """The window functions after a compilation as by bin/bootstrap."""
    return compiled("compile_kernel")


@pytest.mark.usefixtures("filled")
def test_all_that_the_cases_use_is_compiled(project: Project) -> None:
    assert misses(f"{project.root / 'spark_jobs'}:{project.root}", "cases") == []


def test_no_batch_compiles_a_function_of_the_state(project: Project, filled: set[str]) -> None:
    assert called_by_the_state(project) - filled == set()


@pytest.mark.usefixtures("filled")
def test_a_worker_loads_the_functions_of_a_restore_and_a_warm_up_before_its_first_batch() -> None:
    restore = {"hash_tables.load_marks", "key_rows.insert_all", "resets.recount_revived", "instructions.cycles_now"}
    assert {*restore, "resets.extend_resets", "resets.recount_revived_in"} <= compiled("load_kernel")


@pytest.mark.usefixtures("filled")
# A zip file is another place, too, so the folder is a long test.
@pytest.mark.parametrize(
    "packed", [pytest.param(False, id="another folder", marks=pytest.mark.long), pytest.param(True, id="a zip file")]
)
def test_other_places_of_the_same_code_share_it(project: Project, tmp_path: Path, *, packed: bool) -> None:
    source, place = project.root / "spark_jobs" / "fraud_rules", tmp_path / "fraud_rules.zip"
    if packed:
        with zipfile.ZipFile(place, "w") as archive:
            for file in source.rglob("*.py"):
                archive.write(file, file.relative_to(source.parent))
    else:
        shutil.copytree(source, place / "fraud_rules", ignore=shutil.ignore_patterns("__pycache__"))
    assert misses(str(place)) == []


@pytest.mark.long
def test_one_of_two_concurrent_processes_compiles(project: Project, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", MISSES]
    environment = {
        **os.environ, "PYTHONPATH": str(project.root / "spark_jobs"), "FRAUD_CACHE_DIR": str(tmp_path),
    }  # fmt: skip
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    counts = sorted(len(json.loads(process.communicate()[0])) for process in both)
    assert counts[0] == 0
    assert counts[1] > 0
