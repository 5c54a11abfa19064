"""A real Airflow beside other installations, with a selection of the DAGs, all unpaused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fraud_local.airflow import AirflowSite, LocalAirflow
from fraud_local.unpaused import UNPAUSED, Unpausing
from tests.support.processes.healthy import await_healthy
from tests.support.processes.supervised import FOLDERS, Api, project_at


@contextmanager
def lone_airflow(site: AirflowSite) -> Iterator[Api]:
    """Start Airflow's components and wait until they are healthy."""
    airflow = LocalAirflow(site)
    airflow.prepare()
    try:
        airflow.start()
        await_healthy(airflow)
        unpause(site, [path.stem for path in (site.project.root / "dags").glob("*.py")])
        yield Api(site.url)
    finally:
        airflow.stop()


def unpause(site: AirflowSite, dag_ids: Sequence[str] = UNPAUSED) -> None:
    """Unpause DAGs, once Airflow knows them."""
    unpausing = Unpausing(site, dag_ids)
    unpausing.run()
    unpausing.check()


def with_dags(root: Path, home: Path, *names: str) -> None:
    """Copy the project at `root` to `home`, with only these DAGs and its own configuration."""
    (home / "dags").mkdir(parents=True)
    project_at(home, root, [folder for folder in FOLDERS if folder != "dags"])
    for name in names:
        shutil.copy(root / "dags" / f"{name}.py", home / "dags")
