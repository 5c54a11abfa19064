"""A real Airflow with the DAGs of the nights alone, over a test's own topics and archive."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fraud_rules.demo.airflow import AirflowSite, LocalAirflow
from fraud_rules.demo.site import PASSWORD
from fraud_rules.project import Project
from tests.nightly.jobs import archive_of
from tests.running_detector import Installation
from tests.supervised import FOLDERS, Api, demo_ports

NIGHT = "fraud_nightly_reevaluation"


@contextmanager
def nightly_airflow(installation: Installation, home: Path) -> Iterator[Api]:
    """Its components up, under the installation's settings and schema."""
    _project(installation, home)
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": installation.topics.bootstrap}}
    site = AirflowSite(
        home=home / "airflow",
        project=Project(home),
        port=demo_ports()[2],
        password=PASSWORD,
        connections={"fraud_kafka": kafka, "spark_default": {"conn_type": "spark", "host": "local[2]"}},
        variables={"fraud_archive": str(archive_of(installation).root)},
    )
    airflow = LocalAirflow(site)
    airflow.prepare()
    try:
        airflow.start()
        airflow.await_healthy()
        api = Api(site.url)
        api.login()
        yield api
    finally:
        airflow.stop()


def _project(installation: Installation, home: Path) -> None:
    for folder in FOLDERS:
        if folder != "dags":
            (home / folder).symlink_to(installation.project.root / folder)
    shutil.copytree(installation.project.config, home / "config")
    shutil.copy(installation.home / "detector.yaml", home / "config" / "detector.yaml")
    shutil.copy(installation.schema, home / "config" / "schema.yaml")
    (home / "dags").mkdir()
    shutil.copy(installation.project.root / "dags" / f"{NIGHT}.py", home / "dags")
