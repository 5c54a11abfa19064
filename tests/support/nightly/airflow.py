"""A real Airflow with only the nightly DAGs, over a test's own topics and archive."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from fraud_demo.site import PASSWORD
from fraud_local.airflow import AirflowSite
from fraud_rules.configuration.project import Project
from tests.support.kafka.topic_files import name_topics
from tests.support.nightly.jobs import archive_of
from tests.support.processes.lone_airflow import lone_airflow, with_dags
from tests.support.processes.running_detector import Installation
from tests.support.processes.supervised import Api, demo_ports

NIGHT = "fraud_nightly_reevaluation"


@contextmanager
def nightly_airflow(installation: Installation, home: Path) -> Iterator[Api]:
    """Run Airflow with the installation's settings and schema."""
    with_dags(installation.project.root, home, NIGHT)
    settings = yaml.safe_load((installation.home / "detector.yaml").read_text(encoding="utf-8"))
    del settings["topics"]
    (home / "config" / "detector.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    name_topics(home / "config", installation.topics.names)
    shutil.copy(installation.schema, home / "config" / "schema.yaml")
    port = demo_ports()[2]
    site = AirflowSite(
        home=home / "airflow",
        project=Project(home),
        port=port,
        control_port=port + 3,
        password=PASSWORD,
        bootstrap=installation.topics.bootstrap,
        archive=Path(archive_of(installation).root),
        connections={"spark_default": {"conn_type": "spark", "host": "local[2]"}},
    )
    with lone_airflow(site) as api:
        yield api
