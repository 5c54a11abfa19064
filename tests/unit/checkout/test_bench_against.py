"""The comparison of two revisions, on a repository whose benchmark is a stand-in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from bench.__main__ import main
from bench.against import ComparisonFailed, compare, ratios, verdict
from bench.figures import Figure, Rows, Spread

FAST = Rows("fast", "Fast", "", (Figure("rate", "Rate", "1/s"), Figure("new", "New", "s")), lambda *_: {})
BOOTSTRAP = """#!/bin/sh
mkdir -p .venv/bin
cp stand-in .venv/bin/python
"""
STAND_IN = """#!/bin/sh
echo "%s $*" >>"$BENCH_LOG"
[ "%s" != broken ] || exit 1
mkdir -p bench/results
echo '{"runs": [{"rate": 1}, {"rate": %s}]}' >bench/results/fast.json
"""


def commit(root: Path, name: str, rate: str) -> None:
    """A revision whose benchmark gives this rate; it is tagged with the name."""
    (root / "stand-in").write_text(STAND_IN % (name, name, rate), encoding="utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["add", "."], ["commit", "-qm", name], ["tag", name]):
        subprocess.run([*git, *command], cwd=root, check=True)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the revisions old and new, new checked out."""
    root = tmp_path / "repository"
    (root / "bin").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".gitignore").write_text("/var/\n.venv/\n", encoding="utf-8")
    (root / "bin" / "bootstrap").write_text(BOOTSTRAP, encoding="utf-8")
    for script in ("bin/bootstrap", "stand-in"):
        (root / script).touch()
        (root / script).chmod(0o755)
    commit(root, "old", "200")
    commit(root, "new", "150")
    monkeypatch.setenv("BENCH_LOG", str(tmp_path / "log"))
    return root


def test_two_revisions_take_turns(root: Path, tmp_path: Path) -> None:
    lines = compare(root, "old", [FAST], 3)
    runs = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert runs == ["old", "new", "new", "old", "old", "new"]
    assert "-m bench --runs 1 --only fast" in (tmp_path / "log").read_text()
    assert lines[1:] == [
        "fast: Fast",
        "  Rate, 1/s: 0.750 (0.750 to 0.750), lower in every round  [200 / 200 / 200 -> 150 / 150 / 150]",
    ]
    assert lines[0].startswith("HEAD (") and "divided by old (" in lines[0]


def test_a_worktree_is_used_again(root: Path) -> None:
    compare(root, "old", [FAST], 1)
    compare(root, "old", [FAST], 1)
    assert len(list((root / "var" / "bench" / "revisions").iterdir())) == 2


def test_a_benchmark_that_fails_ends_the_comparison(root: Path) -> None:
    commit(root, "broken", "0")
    with pytest.raises(ComparisonFailed, match=r"HEAD: .* ended with exit code 1"):
        compare(root, "old", [FAST], 1)
    with pytest.raises(ComparisonFailed, match="nowhere"):
        compare(root, "nowhere", [FAST], 1)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((0.98, 1.01), "equal within the spread"),
        ((1.01, 1.2), "higher in every round"),
        ((0.9, 0.99), "lower in every round"),
    ],
)
def test_a_difference_is_one_in_every_round(values: tuple[float, ...], said: str) -> None:
    assert verdict(Spread(values)) == said


def test_a_ratio_needs_both_values() -> None:
    assert ratios([{"a": 2}, {"a": 4}, {"b": 1}], [{"a": 3}, {"b": 1}, {"b": 2}], "a") == Spread((1.5,))
    assert ratios([{"a": 0}], [{"a": 1}], "a") is None


def test_a_comparison_leaves_other_options_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--against", "HEAD", "--quick"])
    assert "--against allows only --only and --runs" in capsys.readouterr().err
