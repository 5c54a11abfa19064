"""Compares two revisions in one sitting: their benchmarks take turns, and the ratios of their figures are printed.

Each revision runs its own `python -m bench`, in a git worktree with an environment that its own `bin/bootstrap` makes.
So module paths and settings may differ between the revisions; only the names of groups and figures must be the same.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Rows, Spread
from bench.report import number

Run = Mapping[str, float]


class ComparisonFailed(Exception):
    """A revision could not be set up, or its benchmark failed."""


@dataclass(slots=True)
class Revision:
    """A commit in a worktree of its own; `runs` are its figures by group, one run for each round."""

    name: str
    commit: str
    folder: Path
    runs: dict[str, list[Run]] = field(default_factory=dict)

    @classmethod
    def prepare(cls, root: Path, name: str) -> Revision:
        """Check out the revision under `var/`, once for each commit, and set it up."""
        commit = _git(root, "rev-parse", "--verify", f"{name}^{{commit}}")
        folder = root / "var" / "bench" / "revisions" / commit[:12]
        if not folder.exists():
            _git(root, "worktree", "prune")
            _git(root, "worktree", "add", "--detach", str(folder), commit)
        revision = cls(name, commit, folder)
        revision._run("bin/bootstrap")
        return revision

    def measure(self, groups: Sequence[str]) -> None:
        """Run the groups once. Raises ComparisonFailed when the benchmark fails or gives no figures for a group."""
        results = {name: self.folder / "bench" / "results" / f"{name}.json" for name in groups}
        for path in results.values():
            path.unlink(missing_ok=True)
        self._run(".venv/bin/python", "-m", "bench", "--runs", "1", "--only", ",".join(groups))
        for name, path in results.items():
            if not path.is_file():
                raise ComparisonFailed(f"{self.name} gave no figures for {name}")
            self.runs.setdefault(name, []).append(json.loads(path.read_text(encoding="utf-8"))["runs"][-1])

    def _run(self, *command: str) -> None:
        print(f"{self.name} ({self.commit[:12]}): {' '.join(command)}", flush=True)
        environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        # An older revision may expect the folder in PYTHONPATH.
        environment["PYTHONPATH"] = os.pathsep.join(str(self.folder / name) for name in ("plugins", "spark_jobs"))
        if (self.folder / ".tools" / "java" / "bin" / "java").exists():
            environment["JAVA_HOME"] = str(self.folder / ".tools" / "java")
        code = subprocess.run(command, cwd=self.folder, env=environment, check=False).returncode
        if code != 0:
            raise ComparisonFailed(f"{self.name}: {' '.join(command)} ended with exit code {code}")


def compare(root: Path, against: str, groups: Sequence[Rows], rounds: int) -> list[str]:
    """Measure `against` and HEAD in turns, with alternating order. Return the lines of the comparison."""
    if _git(root, "status", "--porcelain", "--untracked-files=no"):
        print("The work tree has changes that are not committed; HEAD is measured without them.", flush=True)
    base, head = Revision.prepare(root, against), Revision.prepare(root, "HEAD")
    names = [rows.name for rows in groups]
    for turn in range(rounds):
        for revision in (base, head) if turn % 2 == 0 else (head, base):
            revision.measure(names)
    return list(_lines(base, head, groups))


def ratios(base: Sequence[Run], head: Sequence[Run], key: str) -> Spread | None:
    """HEAD's value divided by the base's value, for each round that has both; None without any."""
    values = tuple(new[key] / old[key] for old, new in zip(base, head, strict=False) if old.get(key) and key in new)
    return Spread(values) if values else None


def verdict(found: Spread) -> str:
    """Whether all rounds agree on an increase or a decrease of the figure."""
    if found.least <= 1 <= found.most:
        return "equal within the spread"
    return "higher in every round" if found.least > 1 else "lower in every round"


def _lines(base: Revision, head: Revision, groups: Sequence[Rows]) -> Iterator[str]:
    yield f"HEAD ({head.commit[:12]}) divided by {base.name} ({base.commit[:12]}): median (least to most) of the rounds"
    for rows in groups:
        yield f"{rows.name}: {rows.title}"
        old, new = base.runs[rows.name], head.runs[rows.name]
        for figure in rows.figures:
            found = ratios(old, new, figure.key)
            if found is None:
                continue
            values = " -> ".join(_values(runs, figure.key) for runs in (old, new))
            spread = f"{found.middle:.3f} ({found.least:.3f} to {found.most:.3f})"
            yield f"  {figure.title}, {figure.unit}: {spread}, {verdict(found)}  [{values}]"


def _values(runs: Sequence[Run], key: str) -> str:
    return " / ".join(number(run[key]) for run in runs if key in run)


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ComparisonFailed(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()
