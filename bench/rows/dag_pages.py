"""Measures the parsing of all DAG pages, in a process that has loaded Airflow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from bench.figures import Figure, Rows, Scale, at_most
from bench.lab import Lab
from fraud_rules.configuration.project import Project

_TIMED = """
import sys, time
import airflow.sdk, airflow.triggers.base, airflow.dag_processing.dagbag
sys.path.insert(0, sys.argv[1])
began = time.perf_counter()
bag = airflow.dag_processing.dagbag.DagBag(sys.argv[2])
took_s = time.perf_counter() - began
assert bag.dags and not bag.import_errors, bag.import_errors
print(len(bag.dags), took_s)
"""


def _measure(lab: Lab | None, scale: Scale) -> Mapping[str, float]:
    root = Project.find().root
    command = [sys.executable, "-c", _TIMED, str(root / "plugins"), str(root / "dags")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pages, took_s = answer.splitlines()[-1].split()
    return {"pages": float(pages), "parse_s": float(took_s)}


ROWS = (
    Rows(
        "dag_pages",
        "DAG pages",
        "A fresh process imports Airflow, then loads every page of `dags/` once. The time is that of the second part.",
        (Figure("pages", "DAGs", ""), Figure("parse_s", "time to parse all pages", "s", at_most(1))),
        _measure,
        needs_broker=False,
    ),
)
