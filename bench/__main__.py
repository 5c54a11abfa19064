"""`python -m bench`: measure, save the figures, render the page."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from bench import against, machine, report, results
from bench.ending import ending_children
from bench.figures import QUICK, Rows, Scale
from bench.lab import Lab
from bench.rows import ALL
from fraud_rules.configuration.project import Project


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested measurements; exit code 1 if one failed."""
    options = _parse(arguments)
    chosen = [rows for rows in ALL if _is_wanted(rows, options)]
    if options.list:
        for rows in chosen:
            print(f"{rows.name:20} {rows.title}. {rows.how}")
        return 0
    project = Project.find()
    if options.against:
        return _compare(chosen, options, project)
    page = project.root / "docs" / "benchmarks.md"
    # Python finds the package and the detector from the project's folder, independent of the current folder.
    os.chdir(project.root)
    failed = []
    if not options.render:
        with ending_children():
            failed = _measure_all(chosen, options, project)
    if not options.quick:
        measured = {rows.name: found for rows in ALL if (found := results.read(rows.name)) is not None}
        report.update(page, report.render(ALL, measured))
        print(f"rendered {page}")
    for name in failed:
        print(f"FAILED: {name}", file=sys.stderr)
    return 1 if failed else 0


def _compare(chosen: Sequence[Rows], options: argparse.Namespace, project: Project) -> int:
    """Print the ratios of two revisions' figures; exit code 1 if a measurement failed."""
    try:
        with ending_children():
            lines = against.compare(project.root, options.against, chosen, options.runs)
    except against.ComparisonFailed as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add(
        "--only",
        action="append",
        default=[],
        metavar="NAMES",
        help="names of groups, or their prefixes or suffixes, with commas; may be repeated; default: all but soak",
    )
    add("--runs", type=int, default=3, help="number of runs of each group; the groups take turns")
    add("--list", action="store_true", help="list the groups, and how each is measured")
    add(
        "--quick",
        action="store_true",
        help="check that all groups work: small loads, one run; results and page stay unchanged",
    )
    add("--render", action="store_true", help="only render the page from the saved results")
    add("--soak-minutes", type=float, default=0, help="also run the steady load for this time (30 for the page)")
    add(
        "--against",
        metavar="REVISION",
        help="compare HEAD with this revision: both run the groups in turns, --runs times, each in its own worktree and"
        " environment under var/bench/revisions; results and page stay unchanged",
    )
    options = parser.parse_args(arguments)
    if options.against and (options.quick or options.render or options.soak_minutes):
        parser.error("--against allows only --only and --runs")
    return options


def _is_wanted(rows: Rows, options: argparse.Namespace) -> bool:
    if rows.soak and not options.soak_minutes and not options.list:
        return False
    wanted = [name for names in options.only for name in names.split(",") if name]
    exact = {each.name for each in ALL}
    return not wanted or any(
        rows.name == name or (name not in exact and (rows.name.startswith(name) or rows.name.endswith(f"_{name}")))
        for name in wanted
    )


def _measure_all(chosen: Sequence[Rows], options: argparse.Namespace, project: Project) -> list[str]:
    """Run all groups in turns, so that a busy minute does not affect only one. Return the failed runs."""
    scale = replace(QUICK if options.quick else Scale(), soak_minutes=options.soak_minutes)
    runs: dict[str, list[dict[str, Any]]] = {rows.name: [] for rows in chosen}
    facts, failed = machine.describe(project), set()
    with ExitStack() as stack:
        lab = stack.enter_context(Lab.open(project)) if any(rows.needs_broker for rows in chosen) else None
        for turn in range(1 if options.quick else options.runs):
            for rows in chosen:
                if rows.soak and turn:
                    continue
                try:
                    runs[rows.name].append(_measure(rows, lab, scale))
                except Exception as error:  # noqa: BLE001 - a failed run must not lose the figures of the other runs
                    print(f"{rows.name} FAILED: {error!r}", flush=True)
                    failed.add(f"{rows.name}, run {turn + 1}: {error}")
                    continue
                if not options.quick:
                    _save(rows, runs[rows.name], facts, options.soak_minutes)
    return sorted(failed)


def _measure(rows: Rows, lab: Lab | None, scale: Scale) -> dict[str, Any]:
    """Run one group, and print its values."""
    print(f"{rows.name} ...", flush=True)
    before, started = machine.load_average(), time.monotonic()
    values = rows.measure(lab, scale)  # type: ignore[arg-type]
    shown = {figure.key: report.number(values[figure.key]) for figure in rows.figures if figure.key in values}
    print(f"{rows.name} [{time.monotonic() - started:.0f} s, load {before:.1f}] {shown}", flush=True)
    return {key: _rounded(value) for key, value in values.items()} | {"load_average": round(before, 1)}


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def _save(rows: Rows, runs: Sequence[Mapping[str, Any]], facts: Mapping[str, str], soak_minutes: float) -> None:
    at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    length = f"--soak-minutes {soak_minutes:g}" if rows.soak else f"--runs {len(runs)}"
    command = f"python -m bench --only {rows.name} {length}"
    results.write(results.Results(rows.name, at, command, facts, tuple(runs)))


if __name__ == "__main__":
    sys.exit(main())
